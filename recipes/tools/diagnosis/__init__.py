"""The diagnosis of a run from its records; it imports recipes.records and rooms below, never recipes.tools.report."""
