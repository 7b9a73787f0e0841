"""Avro on whole Arrow columns: each field is decoded for all records of a batch at once.

`nodes` reads a schema, `arrow_types` maps it to columns, `resolution` plans how a writer's schema is read by the
reader's, `steps` and `collections` are the parts of such a plan, and `cursor` is the position in each record.
"""
