"""A task with its episodes as a package for verifiers: the writer (write.py) and the module that it copies
(environment.py), which alone imports verifiers. Imports no room of tools."""
