"""The exactly-once protocol: values, a pure coordinator, the head register, and the driver that carries actions out.

Read in this order: `values` (the nouns), `head_value` (what the one register holds), `transitions` (every way it may
change), `verify` (what a start compares), `startup` and `checkpoint` (pure coroutines: actions out, answers in, no I/O,
no clock), `driver` (which carries the actions out: persist, then commit, then notify). The rules R1-R10 are in
docs/explanation/protocol.md.

Imports go one way: this package knows `wal`, `eos.errors` and nothing above; it is the only importer of tenacity.
"""
