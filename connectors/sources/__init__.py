"""The small contract of a source, and the source that the framework builds from it.

`split_source` is what an author implements. `built` makes an `eos` source of it.
"""
