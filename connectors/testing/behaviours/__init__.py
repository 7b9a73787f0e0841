"""The behaviours that connectors.testing.compliance asks of every sink, by what they are about."""
