"""Tests on real Kafka brokers and databases: what they run on, and what they must find there."""
