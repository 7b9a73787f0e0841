"""The comparison for records in other formats than JSON: Avro, Protobuf, and Debezium's change events.

`changes`, `schemas` and `encoding` make the records, and `forms` names the formats. `eos`, `flink` and `connect` start
the systems, `arena` gives each run its place, `plan` and `run` are the rounds. Measuring is `comparison`'s part.
"""
