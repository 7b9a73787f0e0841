"""This project, started as a user would: `eos run spec.yaml --until-caught-up`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.bench.comparison import ours
from benchmarks.bench.comparison.work import RECORDS_AT_ONCE, Launch, System, Work, planned_at
from benchmarks.bench.formats import schemas
from benchmarks.bench.formats.forms import AVRO, DEBEZIUM_JSON, PROTOBUF, PROTOBUF_PLAIN, Form
from benchmarks.bench.product import spec
from benchmarks.bench.topic import SCHEMA

NAME: Final = "eos"


def system(form: Form) -> System:
    """Return what is measured with this format: new rows by two-phase, changes by upsert."""
    label = "eos, upsert" if form.has_changes else "eos, two-phase"
    return System(NAME, label, "exactly-once", partial(_prepare, form))


def _prepare(form: Form, work: Work) -> Launch:
    sink = ours.entry(work.database, "upsert" if form.has_changes else "two-phase")
    deleted = {"deleted": "_deleted"} if form.has_changes else {}
    checkpoint = {"max_records_per_checkpoint": RECORDS_AT_ONCE}
    path = work.folder / "spec.yaml"
    path.write_text(spec(work.bootstrap, work.topic, _entry(form, work.registry), checkpoint, [{**sink, **deleted}]))
    command = [str(Path(sys.executable).parent / "eos"), "run", str(path), "--until-caught-up"]
    return Launch(command, partial(planned_at, work.folder / "checkpoint"), ends=True)


def _entry(form: Form, registry: str) -> Mapping[str, object]:
    """The format of the source."""
    registered = {"encoding": "confluent", "registry": {"url": registry}}
    if form.name == AVRO:
        return {"type": "avro", **registered, "schema": schemas.ROW_AVRO}
    if form.name in {PROTOBUF, PROTOBUF_PLAIN}:
        message = {"type": "protobuf", "message": "shop.Row", "schema": schemas.ROW_PROTOBUF}
        return {**message, **registered} if form.has_registry else message
    events = {"type": "debezium", "schema": SCHEMA}
    return {**events, "types": {"ts": "MicroTimestamp"}} if form.name == DEBEZIUM_JSON else {**events, **registered}
