"""The outcome of a batch, collected from its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from connectors.api.decoding import Decoded, Undecodable
from connectors.formats.parts import in_order
from connectors.formats.spans import Flags, Ints

Faults = dict[int, str]
"""Reasons by the index of a value in its column. The first reason counts."""


@dataclass(slots=True)
class Outcome:
    """Rows, bad records and omitted records of one batch. Each record gets into exactly one of them."""

    schema: pa.Schema
    parts: list[tuple[Ints, pa.RecordBatch]] = field(default_factory=list)
    bad: Faults = field(default_factory=dict)  # by index in the batch
    omitted: list[Ints] = field(default_factory=list)
    schemas: dict[str, str] = field(default_factory=dict)

    def omit(self, places: Ints) -> None:
        """Omit these records."""
        if len(places):
            self.omitted.append(places)

    def refuse(self, places: Ints, reason: str) -> None:
        """All of these records are bad."""
        self.bad |= dict.fromkeys(places.tolist(), reason)

    def refuse_each(self, places: Ints, faults: Mapping[int, str]) -> None:
        """Some of these records are bad. `faults`: by their index in `places`."""
        self.bad |= {int(places[at]): reason for at, reason in faults.items()}

    def add(self, places: Ints, rows: pa.RecordBatch, faults: Mapping[int, str]) -> None:
        """These records are rows, without the faulty ones."""
        if faults:
            self.refuse_each(places, faults)
            kept = np.ones(len(places), np.bool_)
            kept[list(faults)] = False
            places, rows = places[kept], rows.filter(pa.array(kept))
        self.parts.append((places, rows))

    def decoded(self) -> Decoded:
        """Return all of it, in the order of the records."""
        bad = tuple(Undecodable(at, self.bad[at]) for at in sorted(self.bad))
        omitted = np.sort(np.concatenate([np.empty(0, np.int64), *self.omitted])).tolist()
        return Decoded(in_order(self.parts, self.schema), bad, self.schemas, tuple(omitted))


def add_faults(faults: Faults, wrong: Flags, reason: str) -> None:
    """Add a reason for each wrong value that has none."""
    if wrong.any():
        for at in np.flatnonzero(wrong).tolist():
            faults.setdefault(at, reason)
