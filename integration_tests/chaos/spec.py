"""The spec of a round's pipeline, as its setup has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from integration_tests.chaos.plan import Setup
from integration_tests.chaos.store import Store
from integration_tests.cluster.pipeline import cluster_conf
from integration_tests.cluster.standalone import Cluster

TABLE: Final = "records"

_ROW: Final = "id BIGINT, k BIGINT, n BIGINT"
_CHANGED: Final = (
    "SELECT CASE WHEN _deleted THEN -1 - id ELSE id END AS id, k, 2 * n + CAST(_deleted AS INT) AS n, previous, "
    "{}, _partition, _offset FROM incoming"
)
"""A deletion has numbers of its own, so that each event can be found in the topic that is written."""

_MARKED: Final = "_position, CASE WHEN _deleted THEN _source_ts END AS removed_at"
_MOMENT: Final = {"mysql": "TIMESTAMP(6) NULL", "postgresql": "TIMESTAMPTZ"}

_BACKLOG: Final = {"checkpoints": 50, "bytes": "256MiB"}
"""More than a fault lasts: a sink that is away holds up nobody."""

_FOLDER: Final = "./checkpoints"

_MOST_RECORDS: Final = 100_000  # of a checkpoint


@dataclass(frozen=True, slots=True)
class Topics:
    """Of one round."""

    incoming: str
    written: str
    letters: str


def pipeline_spec(
    setup: Setup, topics: Topics, brokers: str, urls: Mapping[str, str], store: Store | None
) -> dict[str, Any]:
    """Return the spec without Spark's settings. `urls`: by kind of database; `store`: of the log or the location."""
    source: dict[str, Any] = {
        "name": "incoming",
        "connector": "kafka",
        "bootstrap_servers": brokers,
        "topics": [topics.incoming],
        "format": _format(setup),
    }
    checkpoint: dict[str, Any] = {
        **_places(setup, store),
        "interval": "500ms",
        "timeout": "60s",
        "max_records_per_checkpoint": _MOST_RECORDS,
        "mode": setup.mode,
    }
    spec: dict[str, Any] = {
        "pipeline": topics.incoming,
        "checkpoint": checkpoint,
        "restart": {"strategy": "exponential-delay", "initial_delay": "200ms", "max_delay": "2s"},
        "sources": [source],
        "transforms": [_step(setup)],
        "sinks": [
            *(_table(kind, url, setup) for kind, url in urls.items()),
            {
                "name": "written",
                "from": step_name(setup),
                "connector": "kafka",
                "bootstrap_servers": brokers,
                "topic": topics.written,
                "key": ["k"],
                **_log(setup),
            },
        ],
    }
    if setup.has_dead_letters:
        checkpoint["max_dead_letters"] = _MOST_RECORDS  # a full checkpoint after a long fault has more than by default
        spec["dead_letter"] = {
            "connector": "kafka",
            "bootstrap_servers": brokers,
            "topic": topics.letters,
            "commit": "write-ahead-log",
        }
    return spec


def _places(setup: Setup, store: Store | None) -> dict[str, Any]:
    """Return where the pipeline keeps its memory. Its files on this machine are in one folder in any case."""
    if store is None:
        return {"location": _FOLDER}
    if not setup.is_stored:
        return {"location": _FOLDER, "log": str(store.log), "log_options": store.options}
    return {"location": str(store.location), "location_options": store.options, "scratch": _FOLDER}


def spark_settings(cluster: Cluster, own_time: Mapping[str, str]) -> dict[str, Any]:
    """Return those of the spec. `own_time`: an environment that executors need as well; the driver's is not theirs."""
    environment = {f"spark.executorEnv.{name}": value for name, value in own_time.items()}
    return {"master": cluster.master, "conf": {**cluster_conf(cluster), **environment, "spark.cores.max": "2"}}


def _table(kind: str, url: str, setup: Setup) -> dict[str, Any]:
    sink = {
        "name": kind,
        "from": step_name(setup),
        "connector": kind,
        "url": url,
        "table": TABLE,
        "create": "if-missing",
        "evolve": "add-columns",
    }
    match setup.commits[kind]:
        case "two-phase":
            return {**sink, "commit": "two-phase", **_backlog(setup)}
        case "upsert":
            return {**sink, **_log(setup), "commit": "upsert", "key": ["k"], **_deletions(setup)}
        case _:
            return {**sink, **_log(setup)}


def step_name(setup: Setup) -> str:
    """Return the name of the step whose rows the sinks read."""
    return "changed" if setup.changes else "chained"


def _step(setup: Setup) -> dict[str, Any]:
    if not setup.changes:
        return {"name": step_name(setup), "from": "incoming", "python": "chain:chained"}
    return {"name": step_name(setup), "sql": _CHANGED.format(_MARKED if setup.changes == "moving" else "_deleted")}


def _format(setup: Setup) -> dict[str, Any]:
    if not setup.changes:
        return {"type": "json", "schema": _ROW}
    return {"type": "debezium", "schema": f"{_ROW}, previous BIGINT"}


def _deletions(setup: Setup) -> dict[str, Any]:
    match setup.changes:
        case "moving":
            return {"order_by": "_position", "deleted_at": "removed_at"}
        case "in place":
            return {"deleted": "_deleted"}
        case _:
            return {}


def table_columns(kind: str, setup: Setup) -> str:
    """Return the columns of a table that is created before the pipeline starts, for CREATE TABLE."""
    key = "PRIMARY KEY" if setup.commits[kind] == "upsert" else "NOT NULL"
    marks = f", _position VARCHAR(80), removed_at {_MOMENT[kind]}" if setup.changes == "moving" else ""
    return f"id BIGINT, k BIGINT {key}, n BIGINT, previous BIGINT{marks}"


def _log(setup: Setup) -> dict[str, Any]:
    backlog = {"max_backlog": _BACKLOG} if setup.has_backlog else _backlog(setup)
    return {"commit": "write-ahead-log", **backlog}


def _backlog(setup: Setup) -> dict[str, Any]:
    return {"max_backlog": {"checkpoints": setup.waiting}} if setup.waiting else {}
