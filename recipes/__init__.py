"""What a user runs; the only place that imports TRL."""
