"""Subclasses of TRL's trainers, one file each, and what they are made of."""
