"""The format `protobuf`: whole columns out of messages in Protobuf's wire format.

`entry` has the spec's `format`, `descriptors` and `compiler` read schemas, `resolution` compares the writer's message
with the reader's and builds a plan. `wire` finds the fields of many messages at once, `values`, `repeated` and
`message` build the columns.
"""
