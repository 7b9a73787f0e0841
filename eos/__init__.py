"""Exactly-once pipelines on Spark: the public names. Import everything from here; other modules may move.

A job imports `ExactlyOnce`, `register_formats`, `run`, `load_spec` and `Spec`. A connector implements `Source` or
`Sink` with its `Writer`, `DirectWriter` and `Committer`, or a `Format`; the other names are the values of these
contracts and the errors that they raise. All other error classes are in `eos.errors`. A connector in a separate
distribution also imports `eos.plugin`, and its tests import `eos.testing`. docs/reference/api.md lists the names.

A name is imported when it is first used: `import eos` loads neither Spark nor a database driver.
"""

from __future__ import annotations

from eos._interrupts import end_quietly

end_quietly()  # before the imports below, which take time

from typing import TYPE_CHECKING, Final  # noqa: E402

from eos._imports import importer, refuse_shadows  # noqa: E402

if TYPE_CHECKING:
    from connectors.api.contracts import DirectWriter, Finding, Horizon, MeasuredSource, Sink, Source, Writer
    from connectors.api.decoding import (
        CheckedFormat,
        Decoded,
        DecodedTables,
        Format,
        KeyedFormat,
        NamedSchemas,
        SelfDescribingFormat,
        TableRows,
        Undecodable,
    )
    from connectors.spec.loader import load_spec
    from connectors.spec.spec import Spec
    from eos.errors import (
        BadRowError,
        EosError,
        SinkUnavailableError,
        SourceError,
        SpecError,
        TargetError,
    )
    from spark_jobs.adapters.exactly_once import ExactlyOnce
    from spark_jobs.adapters.formats import register_formats
    from spark_jobs.cli.program import run
    from spark_jobs.observe.checkpoint_listener import CheckpointListener, CompletedCheckpoint
    from twophase.ids import Scope, TransactionId
    from twophase.participants import Committer, Prepared
    from twophase.values import CommitOutcome, Committable, OffsetRange, SinkState, StartingPoint

__all__ = [
    "BadRowError",
    "CheckedFormat",
    "CheckpointListener",
    "CommitOutcome",
    "Committable",
    "Committer",
    "CompletedCheckpoint",
    "Decoded",
    "DecodedTables",
    "DirectWriter",
    "EosError",
    "ExactlyOnce",
    "Finding",
    "Format",
    "Horizon",
    "KeyedFormat",
    "MeasuredSource",
    "NamedSchemas",
    "OffsetRange",
    "Prepared",
    "Scope",
    "SelfDescribingFormat",
    "Sink",
    "SinkState",
    "SinkUnavailableError",
    "Source",
    "SourceError",
    "Spec",
    "SpecError",
    "StartingPoint",
    "TableRows",
    "TargetError",
    "TransactionId",
    "Undecodable",
    "Writer",
    "load_spec",
    "register_formats",
    "run",
]

_NAMES: Final = {
    "connectors.api.contracts": ("DirectWriter", "Finding", "Horizon", "MeasuredSource", "Sink", "Source", "Writer"),
    "connectors.api.decoding": (
        "CheckedFormat",
        "Decoded",
        "DecodedTables",
        "Format",
        "KeyedFormat",
        "NamedSchemas",
        "SelfDescribingFormat",
        "TableRows",
        "Undecodable",
    ),
    "connectors.spec.loader": ("load_spec",),
    "connectors.spec.spec": ("Spec",),
    "eos.errors": (
        "BadRowError",
        "EosError",
        "SinkUnavailableError",
        "SourceError",
        "SpecError",
        "TargetError",
    ),
    "spark_jobs.adapters.exactly_once": ("ExactlyOnce",),
    "spark_jobs.adapters.formats": ("register_formats",),
    "spark_jobs.cli.program": ("run",),
    "spark_jobs.observe.checkpoint_listener": ("CheckpointListener", "CompletedCheckpoint"),
    "twophase.ids": ("Scope", "TransactionId"),
    "twophase.participants": ("Committer", "Prepared"),
    "twophase.values": ("CommitOutcome", "Committable", "OffsetRange", "SinkState", "StartingPoint"),
}
"""Public names by the module that defines them. A test compares them with the imports for type checkers above."""

refuse_shadows()


if not TYPE_CHECKING:  # a type checker would take every unknown name for an object
    __getattr__ = importer(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
