"""The model card of a run, from its records; imports recipes.tools.diagnosis and rooms below, never the report."""
