"""Problems from public collections of Python functions, for `task=basics task.env.further=FILE`:

    python -m envs.basics.collected doctests=Python -o algorithms.jsonl       a folder of Python files
    python -m envs.basics.collected snippets=snippets instructions=codegen-instruct.json mbpp=mbpp.jsonl -o all.jsonl

doctests: TheAlgorithms/Python (MIT). instructions, in Alpaca's form: teknium1/GPTeacher (MIT), sahil280114/codealpaca
(CC BY-NC 4.0). snippets: 30-seconds/30-seconds-of-python, last commit of 17 January 2021 (CC0-1.0). mbpp: MBPP's
problems 511 to 974 (CC BY 4.0). None of them is part of this repository.

A collection gives functions with a description and some arguments; the tests are what a function answers to these
arguments and to variations of them, run in the sandbox; where none are shown, to values that the names of its
parameters suggest. Left out are functions that need more than themselves and
their imports, that print instead of returning, whose answer may depend on the order of a set, that are too long for
small models, or that pass all the tests of a problem that is held out.
"""
