"""Problems from public collections of Python functions, for `task=basics task.env.further=FILE`:

    python -m envs.basics.collected doctests Python/ -o algorithms.jsonl                  TheAlgorithms/Python, MIT
    python -m envs.basics.collected instructions codegen-instruct.json -o teacher.jsonl   teknium1/GPTeacher, MIT
    python -m envs.basics.collected instructions code_alpaca_2k.json -o alpaca.jsonl      sahil280114/codealpaca,
                                                                                          CC BY-NC 4.0
    python -m envs.basics.collected snippets snippets/ -o snippets.jsonl                  30-seconds-of-python,
                                                                                          CC BY 4.0
    python -m envs.basics.collected mbpp mbpp.jsonl -o mbpp.jsonl                         MBPP, CC BY 4.0

None of them is part of this repository. A collection gives functions with a description and some arguments; the tests
are what a function answers to these arguments and to variations of them, run in the sandbox. Left out are functions
that need more than themselves and their imports, that print instead of returning, whose answer depends on the order of
a set, that are too long for small models, or that pass all the tests of a problem that is held out.
"""
