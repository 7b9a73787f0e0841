"""Tests of the public package; `python -m tests.eos` is the command `eos` of this work tree."""
