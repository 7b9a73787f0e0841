"""Mutants of the product: each is one wrong line, and the tests that fail for it.

A mutant of `tests/simulation` breaks a rule of the coordinator, and an exploration finds it. A mutant here breaks any
line that a promise rests on, and named tests find it. `python -m tests.mutants --help` says how to run them.
"""
