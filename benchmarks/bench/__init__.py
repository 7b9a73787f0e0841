"""`make bench`: rows per second into the database, warm and cold, beside the raw limit of the same machine.

`python -m benchmarks.bench --help`. `raw` is the limit, `product` runs `eos run`, `topic` makes the records.
"""
