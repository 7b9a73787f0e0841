"""Kafka as a sink: rows wait in the log as messages, and each slot writes its share of a checkpoint in a transaction.

`messages` is what tasks do, `ledger` what the driver does, by `producer` (one transactional producer) and `markers`
(how far it is, in Kafka itself, committed with the messages).
"""
