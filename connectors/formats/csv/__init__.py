"""The format `csv` of a source: a value is one record of comma-separated text (RFC 4180)."""

from __future__ import annotations
