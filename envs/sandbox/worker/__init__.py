"""The program of a sandbox worker: `python worker/__main__.py`.

It may import only the standard library and its own modules. These import each other by bare name, because the
interpreter is started on this folder and does not know the package around it.
"""
