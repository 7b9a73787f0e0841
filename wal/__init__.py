"""Bytes that wait: immutable segments of Arrow rows, checked by a sum, each there whole or not at all.

Read in this order: `errors`, `storage` (what is asked of a place for bytes), `local` (a folder), `object` (a bucket;
with `address`, `refusals` and `remote`), `segment` (rows in, rows out, verified). `durable` and
`private` are what files owe to a power cut and to other users, `filesystem` refuses the places that would break the
promises, `testing` breaks them on purpose.

This package knows nothing of checkpoints, sinks or Spark, and imports of the project only `eos.errors`.
"""
