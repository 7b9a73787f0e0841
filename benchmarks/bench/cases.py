"""What is measured: each case writes the same records to targets of its own, and tells how long it took."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.bench import raw, targets, topic
from benchmarks.bench.product import Product, spec
from benchmarks.bench.targets import Place, Target

_FEW = 10  # see that the pipeline waits for records

_TWO_PHASE = partial(targets.mysql, commit="two-phase")
_POSTGRES = partial(targets.postgresql, commit="upsert")
_SQLITE = partial(targets.sqlite, commit="write-ahead-log")
_KAFKA = partial(targets.kafka, form="json")
_BYTES = partial(targets.kafka, form="raw")
_BYTES_WAITING = partial(targets.kafka, form="raw", waiting=1)
_IN_PARTS = MappingProxyType({"max_records_per_checkpoint": 100_000})
_TWO_SECONDS = MappingProxyType({"interval": "2s", "max_records_per_checkpoint": 400_000})  # it works all the time

Make = Callable[[Place], Target]


class AfterFirst(NamedTuple):
    """From the first new rows visible to all of them."""

    rows: int
    seconds: float


class Measured(NamedTuple):
    """Of one run."""

    seconds: float
    peak_rss_mb: float  # of the largest Python process
    after_first: AfterFirst | None = None  # none where all became visible at once, or nobody looked


@dataclass(frozen=True, slots=True)
class Limit:
    """A raw limit of the machine."""

    make: Make
    writer: Callable[[Mapping[str, object]], Callable[[], raw.Target]]  # from the target's entry
    against: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def run(self, place: Place, rows: int) -> Measured:
        """From the start of the first reader to the last row committed."""
        target, bootstrap = self.make(place), place.services.kafka_bootstrap
        topic.produce(bootstrap, place.name, 0, rows)
        result = raw.copy(bootstrap, place.name, rows, self.writer(target.entry))
        _check([target], rows)
        return Measured(result.seconds, result.peak_rss_mb)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A run of the product."""

    makes: tuple[Make, ...]
    against: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"raw": ("raw",)})
    """By label, the cases whose seconds, added up, are divided by this one's: above 1, this one is faster."""
    form: str = "json"  # of the source
    checkpoint: Mapping[str, object] = field(default_factory=dict)
    in_store: bool = False  # its location, in a bucket of MinIO on this machine

    def run(self, place: Place, rows: int) -> Measured:
        """From when a pipeline that has moved as many records before may read new ones, which are all there, to the
        last one visible in every sink."""
        made, bootstrap = [make(place) for make in self.makes], place.services.kafka_bootstrap
        bucket = place.bucket() if self.in_store else None
        located = {**self.checkpoint, **(bucket.checkpoint if bucket is not None else {})}
        text = spec(bootstrap, place.name, self.form, located, [each.entry for each in made])
        produce = partial(topic.produce, bootstrap, place.name)
        produce(0, rows)
        with Product(place.folder, text, head=bucket.head if bucket is not None else None) as product:
            product.wait_for(rows)
            produce(rows, _FEW)
            product.wait_for(rows + _FEW)
            product.pause()
            moved = 2 * rows + _FEW
            produce(rows + _FEW, rows)
            began_at = product.resume()
            first = product.wait_for(moved - rows + 1)
            last = product.wait_for(moved)
        _check(made, moved)
        after_first = AfterFirst(moved - first.records, last.at - first.at) if first.records < moved else None
        return Measured(last.at - began_at, product.peak_rss_mb, after_first)


def _check(made: list[Target], records: int) -> None:
    for target in made:
        arrived = target.arrived()
        if arrived != (records, records):
            raise RuntimeError(f"{records} records produced, {arrived[0]} rows, {arrived[1]} distinct: {target.entry}")


def _table(entry: Mapping[str, object]) -> Callable[[], raw.Target]:
    return partial(raw.Table, str(entry["url"]), str(entry["table"]))


def _topic(entry: Mapping[str, object]) -> Callable[[], raw.Target]:
    return partial(raw.Topic, str(entry["bootstrap_servers"]), str(entry["topic"]))


_FOUR = ("eos warm", "eos postgresql upsert", "eos sqlite log", "eos kafka json")
_BESIDE_RAW_TOPIC = {"raw kafka": ("raw kafka",)}

CASES: Mapping[str, Limit | Pipeline] = MappingProxyType(
    {
        "raw": Limit(_TWO_PHASE, _table),
        "raw kafka": Limit(_BYTES, _topic),
        "eos warm": Pipeline((_TWO_PHASE,)),
        "eos warm log": Pipeline((partial(targets.mysql, commit="write-ahead-log"),)),
        "eos warm upsert": Pipeline((partial(targets.mysql, commit="upsert"),)),
        "eos warm at-least-once": Pipeline(
            (_TWO_PHASE,),
            checkpoint={"mode": "at-least-once"},
            against={"raw": ("raw",), "exactly-once": ("eos warm",)},
        ),
        "eos warm each 2 s": Pipeline((_TWO_PHASE,), checkpoint=_TWO_SECONDS),
        "eos warm each 2 s in a store": Pipeline(
            (_TWO_PHASE,), {"on a disk": ("eos warm each 2 s",)}, checkpoint=_TWO_SECONDS, in_store=True
        ),
        "eos kafka": Pipeline((_BYTES,), _BESIDE_RAW_TOPIC, form="raw"),
        "eos kafka in parts": Pipeline((_BYTES,), _BESIDE_RAW_TOPIC, form="raw", checkpoint=_IN_PARTS),
        "eos kafka overlapping": Pipeline(
            (_BYTES_WAITING,),
            {**_BESIDE_RAW_TOPIC, "in parts": ("eos kafka in parts",)},
            form="raw",
            checkpoint=_IN_PARTS,
        ),
        "eos kafka json": Pipeline((_KAFKA,), _BESIDE_RAW_TOPIC),
        "eos postgresql upsert": Pipeline((_POSTGRES,), {}),
        "eos sqlite log": Pipeline((_SQLITE,), {}),
        "eos four sinks": Pipeline((_TWO_PHASE, _POSTGRES, _SQLITE, _KAFKA), {"the four one after another": _FOUR}),
    }
)
"""By name; each case stands behind those that it is compared with."""
