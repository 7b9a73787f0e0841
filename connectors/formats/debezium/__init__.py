"""Change events of Debezium as rows of the table that they are of.

`entry` has the spec's `format`, `debezium_format` converts events to rows. `json_events` and `avro_events` decode
events. `written` names the types in which values are written, and `readings` converts them to the schema's columns.
"""
