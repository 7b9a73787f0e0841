"""How a pipeline checkpoints, restarts and runs: the sections `checkpoint`, `state`, `restart` and `spark`."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, PlainValidator, PrivateAttr, ValidationInfo, model_validator

from connectors.api.database import EXAMPLE, is_installed
from connectors.api.fields import (
    AtLeastOne,
    Count,
    Duration,
    Factor,
    LocalPath,
    NonEmpty,
    PositiveDuration,
    RecordCap,
    RecordLimit,
    Share,
    as_written,
    database_url,
    local_path,
    without,
)
from connectors.api.masking import Url
from connectors.api.model import Strict, refuse, wrong
from twophase.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy
from wal.address import EXAMPLES, ObjectAddress, is_object_url
from wal.errors import ObjectAddressError, ObjectOptionsError

_LOG: Final = "log"
"""Folder of all logs of a pipeline, below its checkpoint location, where the spec names no other place."""


def _folder_or_store(value: object, info: ValidationInfo) -> Path | str:
    """A URL of an object store as it is written, or a path."""
    if isinstance(value, str) and is_object_url(value):
        return value
    return local_path(value, info, EXAMPLES)


FolderOrStore = Annotated[Path | str, PlainValidator(_folder_or_store, json_schema_input_type=str)]
"""A path of this machine, or the URL of an object store."""


class CheckpointSettings(Strict):
    """`checkpoint`: where the pipeline's memory is, and how often it decides."""

    location: FolderOrStore
    """Where decisions, positions and Spark's state are kept: a folder on a local disk, from the spec's folder; or
    `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, `hdfs://namenode:8020/path`. Keep it."""
    location_options: Annotated[dict[str, str], as_written] = Field(default_factory=dict)
    """Options of the object store's client, as in `log_options`."""
    scratch: LocalPath | None = None
    """With a location in an object store: a folder of this machine for Spark's files and the history. May be lost."""
    head: Annotated[Url, database_url(EXAMPLE, is_installed)] | None = None
    """A database to keep the decisions in, as an SQLAlchemy URL of a kind that `eos connectors` lists; without it they
    are files at `location`."""
    log: FolderOrStore | None = None
    """Where rows wait that are committed by a log: a path, `s3://bucket/prefix`, `gs://bucket/prefix`,
    `az://container/prefix`, or `hdfs://namenode:8020/path`; without it the folder `log` at `location`. Change it only
    where nothing waits."""
    log_options: Annotated[dict[str, str], as_written] = Field(default_factory=dict)
    """What the object store's client has to know: `endpoint`, `region`, `access_key_id`, `secret_access_key` and
    others, best as `${env:NAME}`. Credentials that are not given come from the environment of each machine."""
    interval_s: Duration = Field(2.0, alias="interval")
    """How often a checkpoint begins; `0s`: as fast as possible. Rows become visible with their checkpoint."""
    timeout_s: PositiveDuration = Field(600.0, alias="timeout")
    """A checkpoint that takes longer is aborted and run again."""
    retained: AtLeastOne = 10
    """How many of the newest checkpoints head keeps whole, with their offsets and transactions."""
    mode: Literal["exactly-once", "at-least-once"] = "exactly-once"
    """What is promised. `at-least-once`: tasks commit their rows themselves, before the checkpoint is decided; rows are
    seen sooner, and after a failure those of the last checkpoint may come again. `commit` of a sink then says only how
    what was decided under exactly-once is brought to its end. May be changed between two runs."""
    max_records_per_checkpoint: RecordCap | None = None
    """Bounds memory, transactions and recovery after an outage; without it a checkpoint takes all that is there.
    `auto`: as many as are written in about `interval`, or in a second where that is `0s`."""
    max_dead_letters: AtLeastOne = 1000
    """A checkpoint with more records for `dead_letter` stops the pipeline: so many are no exception any more."""
    max_skipped: RecordLimit = 1000
    """A checkpoint in which a source with `on_bad_record: skip` leaves out more records stops the pipeline. A number,
    or a share of what the checkpoint reads of the source, such as `5%`; `100%`: no limit."""
    connections: AtLeastOne = 4
    """Connections over which the driver commits a checkpoint into one sink with `commit: two-phase`, one for each 16
    transactions. More are faster with many tasks; the server must have room for them."""
    min_pause_s: Duration = Field(0.0, alias="min_pause")
    """From the end of a checkpoint to the begin of the next, at least: time for what else the machine has to do."""

    removed: ClassVar[Mapping[str, str]] = {
        "max_concurrent": "write `max_backlog: {checkpoints: N}` at each sink, with N = max_concurrent - 1",
        "tolerable_failures": "a failed checkpoint is run again as `restart` says",
    }

    _log_at: ObjectAddress | None = PrivateAttr(default=None)
    _location_at: ObjectAddress | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _of_an_object_store(self) -> CheckpointSettings:
        self._log_at = _address("log", self.log, self.log_options)
        self._location_at = _address("location", self.location, self.location_options)
        if self._location_at is None and self.scratch is not None:
            raise wrong("everything is at `location`, which is a folder", "no `scratch`", at="scratch")
        if self._location_at is not None and self.head is not None:
            message = "decisions are kept at `location`, in the object store"
            raise wrong(message, "a folder as `location`, or no `head`", at="head")
        return self

    def skippable(self, records: int) -> int:
        """How many of so many records of one source a checkpoint may leave out."""
        if isinstance(self.max_skipped, int):
            return self.max_skipped
        return math.ceil(round(records * float(self.max_skipped.removesuffix("%")) / 100, 6))

    @property
    def at_least_once(self) -> bool:
        """Whether rows may come twice."""
        return self.mode == "at-least-once"

    @property
    def log_at(self) -> Path | ObjectAddress:
        """Where rows wait. The address has what the store's client has to know, secrets too."""
        if self._log_at is not None:
            return self._log_at
        if isinstance(self.log, Path):
            return self.log
        return self._location_at.below(_LOG) if self._location_at is not None else self.folder / _LOG

    @property
    def location_at(self) -> Path | ObjectAddress:
        """Where decisions are kept. The address holds the options of the store's client, secrets too."""
        return self._location_at if self._location_at is not None else Path(self.location)

    @property
    def is_shared(self) -> bool:
        """Whether drivers on other machines see the same head."""
        return self.head is not None or self._location_at is not None

    @property
    def is_scratch(self) -> bool:
        """Whether the folder may be lost, since the location is in an object store."""
        return self._location_at is not None

    @property
    def folder(self) -> Path:
        """The folder of this machine: the location itself, or the scratch folder of a location in an object store."""
        if self._location_at is None:
            return Path(self.location)
        return self.scratch if self.scratch is not None else _scratch_of(self._location_at)


def _address(key: str, place: Path | str | None, options: dict[str, str]) -> ObjectAddress | None:
    """Return the object store that these two keys name; None where it is a path. Raises an error for pydantic."""
    if isinstance(place, str):
        try:
            return ObjectAddress.parse(place, options)
        except ObjectAddressError as error:
            at = f"{key}_options" if isinstance(error, ObjectOptionsError) else key
            raise wrong(error.message, error.remedy.removeprefix("write "), at=at) from None
    if options:
        found = f"`{key}` is not the URL of a store, and only such a URL has options"
        raise wrong(found, *EXAMPLES, at=f"{key}_options")
    return None


def _scratch_of(address: ObjectAddress) -> Path:
    """A folder of this user's for each location."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "eos" / "scratch" / hashlib.sha256(str(address).encode()).hexdigest()[:16]


_REFUSED_BACKENDS: Final = {
    "hdfs": "Spark's HDFS state store has no checkpoint format 2, so a losing task could overwrite state; write "
    "rocksdb-changelog, which also stores the changes of a checkpoint instead of whole files",
}


class StateSettings(Strict):
    """`state`: how steps with state store it."""

    backend: Annotated[Literal["rocksdb", "rocksdb-changelog"], refuse(_REFUSED_BACKENDS)] = "rocksdb"
    """Files of RocksDB with each checkpoint, or its changes only (`rocksdb-changelog`): few bytes per checkpoint, and a
    start that applies the changes since the newest snapshot. May be changed between two runs."""


class NoRestartSettings(Strict):
    """`restart: {strategy: none}`: the first failure is the last."""

    kind: Literal["none"] = Field(alias="strategy")

    def strategy(self) -> RestartStrategy:
        """A new strategy, with no failure behind it."""
        return NoRestart()


class FixedDelaySettings(Strict):
    """`restart: {strategy: fixed-delay, …}`."""

    kind: Literal["fixed-delay"] = Field(alias="strategy")
    attempts: Count
    """Restarts before the run gives up."""
    delay_s: Duration = Field(alias="delay")
    """Before each restart."""

    def strategy(self) -> RestartStrategy:
        """A new strategy, with no failure behind it."""
        return FixedDelay(self.attempts, self.delay_s)


class FailureRateSettings(Strict):
    """`restart: {strategy: failure-rate, …}`."""

    kind: Literal["failure-rate"] = Field(alias="strategy")
    max_failures_per_interval: AtLeastOne
    """With one more in `interval` the run gives up."""
    interval_s: PositiveDuration = Field(60.0, alias="interval")
    """The time in which failures are counted; it goes along with them."""
    delay_s: Duration = Field(1.0, alias="delay")
    """Before each restart."""

    def strategy(self) -> RestartStrategy:
        """A new strategy, with no failure behind it."""
        return FailureRate(self.max_failures_per_interval, self.interval_s, self.delay_s)


class ExponentialDelaySettings(Strict):
    """`restart: {strategy: exponential-delay, …}`, the default."""

    kind: Literal["exponential-delay"] = Field("exponential-delay", alias="strategy")
    initial_delay_s: PositiveDuration = Field(1.0, alias="initial_delay")
    """Before the first restart."""
    max_delay_s: PositiveDuration = Field(60.0, alias="max_delay")
    """No delay is longer."""
    multiplier: Factor = 2.0
    """Each delay is so many times the one before it."""
    jitter: Share = 0.1
    """Share of a delay by which it varies, so that several pipelines do not restart at once."""
    reset_after_s: PositiveDuration = Field(3600.0, alias="reset_after")
    """After so long without a failure the delays begin anew."""
    attempts: Count | None = None
    """Restarts before the run gives up; without it there is no end."""

    @model_validator(mode="after")
    def _delays_in_order(self) -> ExponentialDelaySettings:
        if self.max_delay_s < self.initial_delay_s:
            found = f"max_delay ({self.max_delay_s:g} s) is below initial_delay ({self.initial_delay_s:g} s)"
            raise wrong(found, "at least initial_delay", at="max_delay")
        return self

    def strategy(self) -> RestartStrategy:
        """A new strategy, with no failure behind it."""
        return ExponentialDelay(
            self.initial_delay_s,
            self.max_delay_s,
            self.multiplier,
            self.jitter,
            self.reset_after_s,
            self.attempts,
        )


RestartSettings = Annotated[
    NoRestartSettings | FixedDelaySettings | FailureRateSettings | ExponentialDelaySettings,
    Field(discriminator="kind"),
]

_REFUSED_CONF: Final = {
    "spark.sql.streaming.checkpointLocation": "the checkpoint is at checkpoint.location",
    "spark.master": "write it as spark.master, outside of conf",
    "spark.sql.session.timeZone": "it is always UTC, so that times are written as they were read",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "it is always 2, which a losing task cannot overwrite",
    "spark.sql.streaming.stateStore.providerClass": "write state.backend: state is always kept in RocksDB",
    "spark.sql.legacy.observeMetricsAggregateAllAttempts": "it stays false, or a retried task would count twice",
}


def _without_speculation(conf: dict[str, str]) -> dict[str, str]:
    if conf.get("spark.speculation", "false").strip().lower() != "false":
        found = "speculation cannot be on: two attempts of one task would write the same rows at once"
        raise wrong(found, "false", at="spark.speculation")
    return conf


class SparkSettings(Strict):
    """`spark`: the session that the pipeline runs in."""

    master: NonEmpty = "local[*]"
    """Where Spark runs, as Spark writes it: `local[4]`, `spark://host:7077`."""
    conf: Annotated[dict[str, str], as_written, without(_REFUSED_CONF), AfterValidator(_without_speculation)] = Field(
        default_factory=dict
    )
    """Spark's own settings, as in spark-defaults.conf."""
    allow_unauthenticated: bool = False
    """Start without `spark.authenticate`. Any process that reaches a port of Spark's can then read rows and the spec's
    secrets there, and may run code as this user."""
    allow_unencrypted: bool = False
    """Start on a cluster of several machines without encryption between them. Who reads their network then reads rows,
    state and the spec's secrets."""
