"""The modules that the server imports for its programs, so that they need not be imported in each process."""

import contextlib
import gc
import importlib
import sys

import candidate
import kernel
import program

COMMON = """
abc builtins collections collections.abc contextlib enum functools gc io itertools json math operator os re string sys
threading time types typing
"""
"""Modules in every program's process. Each page of a module makes each fork and each exit slower."""
LIBRARY = """
argparse array ast asyncio base64 binascii bisect calendar cmath cmd codecs concurrent.futures copy csv ctypes
dataclasses datetime decimal difflib errno fileinput fnmatch fractions getpass glob graphlib hashlib heapq hmac html
inspect keyword linecache locale logging multiprocessing numbers opcode pathlib pickle platform pprint queue random
reprlib sched secrets select shlex shutil signal socket statistics stringprep struct subprocess tempfile textwrap
timeit token tokenize traceback unicodedata unittest urllib.parse uuid warnings weakref zlib
zoneinfo encodings.idna encodings.latin_1 encodings.ascii encodings.utf_16 encodings.utf_32 encodings.cp437
encodings.punycode _strptime _bootlocale concurrent.futures.thread concurrent.futures.process unittest.mock
"""
"""Other modules that programs import: loaded when a program first names one."""
OWN = """
candidate checker clock codec confine connection effects group held kernel landlock layer library_types modes namespaces
objects passed preloading process program relocation semaphores server start template tree tree_memory waiting workplace
"""
MODULES = frozenset(LIBRARY.split())


def load(name: str) -> None:
    """Import a module for all later programs. An import that fails here also fails in a program."""
    with contextlib.suppress(Exception, SystemExit):
        importlib.import_module(name)


def preload() -> None:
    """Import what programs commonly import, and define what `site` would define."""
    import _sitebuiltins
    import builtins

    for name in COMMON.split():
        load(name)
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    for name in OWN.split():
        del sys.modules[name]
    program.warm()
    candidate.warm()
    gc.collect()
    gc.freeze()
    kernel.LIBC.malloc_trim(0)
