"""What looks at a run before or after it: the plan of its memory, the diagnosis of its records, its report.

May import evaluation, trainers, models, data, records and cli; trains nothing.
"""
