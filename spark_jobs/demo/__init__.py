"""The demo: the example job with an embedded broker, killed twice, restarted, and counted.

`eos demo` runs `performance.perform`. `play` has the course of events, `verdict` the count, and `place` the parts that
differ between an embedded broker and real servers.
"""
