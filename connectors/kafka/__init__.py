"""Kafka as a source: offset ranges read into Arrow, positions, and the checks of `eos doctor`."""

from __future__ import annotations

from connectors.kafka.source import KafkaSource

__all__ = ["KafkaSource"]
