"""Around training: configuration, models, run directory, logs, evaluation, report."""
