"""The demo: the example job on a broker and a table, killed in the middle and started again, and then counted.

`scripts/demo` runs it. `place` says where it runs, `feed` produces, `job` is the driver's process, `play` the course of
events, the verdict is `examples.eos.verdict`.
"""
