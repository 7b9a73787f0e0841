"""Avro on whole Arrow columns: each field is decoded for all records of a batch at once.

`nodes` parses a schema and `arrow_types` maps it to columns. `resolution` plans how records of a writer's schema are
read; `steps`, `nested` and `skipping` are the parts of such a plan. `cursor` has the position in each record.
"""
