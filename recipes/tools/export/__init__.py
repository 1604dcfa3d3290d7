"""A trained policy as files for other programs: full weights, GGUF, an upload. Imports no room of tools."""
