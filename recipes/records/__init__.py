"""The files of a run: its directory, records, checkpoints; imports recipes.cli, never recipes.data or a room above."""
