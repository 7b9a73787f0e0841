"""Decoding of record values, on whole Arrow columns: JSON with a given schema, strings, raw bytes.

`entry` has the spec's `format`, `ddl` reads a schema as Spark writes it, `json_values` and `plain` are the formats.
"""
