"""Kafka: topics as a source and as a sink, and their entries in the spec, which import no client."""
