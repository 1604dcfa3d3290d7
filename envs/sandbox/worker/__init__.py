"""The program that a sandbox worker runs: `python worker/__main__.py`. Standard library only; its modules import each
other by bare name, because the interpreter is started on this folder and knows nothing of the package around
it."""
