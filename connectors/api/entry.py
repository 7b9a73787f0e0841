"""Bases of the entries of `sources` and `sinks`: the questions that the core asks of a connector's own model.

A connector's package has one subclass for each entry, in a module that imports no client: `eos validate` and
`eos schema` load it. `build` imports the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NoReturn, Self, Union, get_args, get_origin

from pydantic import Field, model_validator

from connectors.api.database import DatabaseUse
from connectors.api.fields import MaxBacklog, NonEmpty, StepName, Title
from connectors.api.guarantee import Guarantee, PipelineContext
from connectors.api.masking import Url
from connectors.api.model import Strict, wrong
from connectors.api.template import Template
from connectors.api.tls import Protection
from connectors.dead_letter_names import NAME
from eos.errors import SpecError

if TYPE_CHECKING:
    from connectors.api.contracts import Sink, Source
    from connectors.dead_letters import DeadLetter
    from connectors.sources.split_source import SplitSource

TWO_PHASE: Final = "two-phase"
"""The commit variant in which rows wait in the target itself, as prepared transactions."""


PLACEHOLDER: Final = re.compile(r"topic|schema|column\..+", re.DOTALL)
"""Names that `table: "${name}"` has for what rows give: their topic, their schema, and their value in a column."""

_OF_CORE: Final = {"name": "name", "connector": "connector", "from": "from_", "commit": "commit"}
"""Keys of an entry that the core reads, each with its field. Their values are texts."""


def _is_text(annotation: object) -> bool:
    """Return whether a field takes texts, some of them, or none: `str`, `Literal["a"]`, `str | None`."""
    if annotation is str or annotation is NoneType:
        return True
    if get_origin(annotation) is Literal:
        return all(isinstance(each, str) for each in get_args(annotation))
    parts = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _is_text(parts[0])
    return bool(parts) and get_origin(annotation) in (Union, UnionType) and all(map(_is_text, parts))


class Entry(Strict):
    """Base of `SourceEntry` and `SinkEntry`: one connection of a pipeline to a service.

    A subclass declares `api_version`, the `eos.plugin.API_VERSION` that it was written for.
    """

    api_version: ClassVar[int]
    task_modules: ClassVar[Sequence[str]] = ()
    """Modules that a task imports; Spark's worker processes import them before their first task."""

    template: ClassVar[Template | None] = None
    """For `eos init`; without it `eos init` writes the required keys with empty values."""

    name: str
    connector: str

    @classmethod
    def __pydantic_init_subclass__(cls, **_settings: Any) -> None:
        """Refuse a class that gives a key of the core another type: the core reads these keys of every entry.

        Raises TypeError, which is the error of the plugin's import.
        """
        super().__pydantic_init_subclass__(**_settings)
        for key, field in cls.model_fields.items():
            alias = field.alias or key
            if alias in _OF_CORE and key != _OF_CORE[alias]:
                raise TypeError(f"the field {key!r} of {cls.__name__} has the key {alias!r} of the core")
            if key in _OF_CORE.values() and (alias not in _OF_CORE or not _is_text(field.annotation)):
                raise TypeError(f"the field {key!r} of {cls.__name__} is not a text under the core's key")

    @property
    def where(self) -> str:
        """The service and the place in it, for people. Shows no password."""
        raise NotImplementedError

    @property
    def datasets(self) -> Sequence[tuple[str, str]]:
        """Namespace and name of each data set that is read or written, by OpenLineage's rules for names.

        Sent to a catalogue of lineage; holds no secret.
        """
        return ((self.connector, self.where),)

    def addresses(self, context: PipelineContext) -> Sequence[tuple[str, int]]:
        """Host and port of each server that tasks connect to, for `eos doctor`."""
        return ()

    @property
    def files(self) -> Sequence[Path]:
        """Files that tasks read on their own machine, such as certificates, for `eos doctor`."""
        return ()

    @property
    def extras(self) -> frozenset[str]:
        """Extras of `eos-spark` that this entry needs, on the driver and wherever tasks run."""
        return frozenset()

    @property
    def reserved_topics(self) -> Sequence[str]:
        """Topics that hold state of the protocol. A replay of dead letters sends nothing there."""
        return ()

    @property
    def protection(self) -> Protection | None:
        """Protection of the connection, for `eos validate`; None if nothing is sent over a network."""
        return None

    @property
    def description(self) -> Mapping[str, str]:
        """Settings that tell a reader of a savepoint what this entry was. Stored; holds no secret."""
        return {"connector": self.connector}


class SourceEntry(Entry):
    """Base of the entries of `sources`. The class's docstring and those of its fields are shown in `eos schema`."""

    name: StepName
    """The view under which steps read it. Positions are kept by it: do not change it while the pipeline lives."""
    on_bad_record: Literal["fail", "skip", "dead-letter"] | None = None
    """What a record that does not decode does: stop the pipeline; be left out and counted; or be written to
    `dead_letter`. By default `dead-letter` where the spec has one, else `fail`."""

    def build(self) -> Source | SplitSource:
        """Build the source, or its small form. Opens no connection. Called at each start, on the driver."""
        raise NotImplementedError

    @property
    def columns(self) -> Sequence[str] | None:
        """Names of the columns of the rows; None if only the service knows them."""
        return None

    @property
    def starts_from(self) -> str:
        """Where the first start begins to read, for people. `earliest` and `latest` mean the two ends."""
        return "earliest"

    def tolerating_loss(self) -> Self:
        """Return this entry reading past records that the service no longer has. Called by `eos repair`."""
        return self

    @property
    def describes_itself(self) -> bool:
        """Whether records bring the schemas of their rows with them, so that only the metadata columns are known."""
        return False

    @property
    def is_one_topic(self) -> bool:
        """Whether all records come from one topic, so that partition and offset identify a record."""
        return False

    @property
    def has_several_rows(self) -> bool:
        """Whether a record may have several rows, which the column `_row` numbers."""
        return False

    @property
    def unordered_by(self) -> str:
        """The key by which several tasks read one split in no order; empty if each split is read in order."""
        return ""

    def limits(self) -> Sequence[str]:
        """Return the settings of this entry that limit the guarantee "every record", in words."""
        return ()

    def reads_from(self, sink: SinkEntry) -> bool:
        """Return whether this source reads the rows that `sink` writes."""
        return False

    def reads(self, topic: str) -> bool:
        """Return whether this source reads `topic`. A replay sends a dead letter back only to such a topic."""
        return False

    def resend(self, pipeline: str, topic: str, letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
        """Send dead letters to `topic` once more, each once, and return those that had not been sent before."""
        self._refuse("`eos dead-letters replay`")

    def _refuse(self, action: str) -> NoReturn:
        message = f"source {self.name}: the connector {self.connector} has no {action}"
        raise SpecError(message, remedy="see what the connector's own documentation offers instead")


class SplitSourceEntry(SourceEntry):
    """Base of the entry of a source that is a `SplitSource`. A subclass declares its keys, `where` and `build`."""

    on_bad_record: Literal["fail"] = "fail"
    """A record that does not decode stops the pipeline."""

    def build(self) -> SplitSource:
        """Build the source. Opens no connection. Called at each start, on the driver."""
        raise NotImplementedError


class SinkEntry(Entry):
    """Base of the entries of `sinks`. The class's docstring and those of its fields are shown in `eos schema`."""

    promises: ClassVar[Mapping[str, str]] = {}
    """The promise in one line, by value of `commit`. For `eos connectors`."""
    exactly_once_only: ClassVar[Mapping[str, str]] = {}
    """Values of `commit` that `checkpoint.mode: at-least-once` cannot be combined with, each with the reason."""
    target_key: ClassVar[str] = "table"
    """The key that names the target, for the lines of messages."""

    name: Title
    """Stands in transaction ids: do not change it while the pipeline lives."""
    from_: NonEmpty | None = Field(None, alias="from")
    """The step or source whose rows are written."""
    commit: str
    max_backlog: MaxBacklog | None = None
    """The next checkpoints are written while this sink still commits, until so much waits; with a log, also while the
    sink is away. The sink then catches up in order."""

    @classmethod
    def choices_of(cls, name: str) -> Mapping[str, str]:
        found = super().choices_of(name)
        if name != "commit" or not isinstance(cls.promises, Mapping):  # a plugin may declare anything
            return found
        return {value: str(cls.promises.get(value, "")) for value in found}

    @classmethod
    def dead_letter_model(cls) -> type[SinkEntry] | None:
        """Return the model of an entry `dead_letter` of this connector; None if it takes no dead letters."""
        return None

    def build(self, context: PipelineContext, dead_letters: Sink | None = None) -> Sink:
        """Build the sink. Opens no connection. Called at each start, on the driver.

        `dead_letters`: the sink that takes refused rows in the same transaction, if `accepts_rejected_rows` says so.
        """
        raise NotImplementedError

    def guarantee(self, context: PipelineContext) -> Guarantee:
        """Return the guarantee for the mode of `context`, without the limits that the sources bring."""
        raise NotImplementedError

    @property
    def target(self) -> tuple[object, ...]:
        """A value that is equal for two sinks of one target, as far as the spec shows."""
        return (self.connector, self.where)

    @property
    def row_columns(self) -> Sequence[tuple[tuple[str | int, ...], str]]:
        """Columns of the rows that this entry names, each behind its path in the entry. Checked before a start."""
        return ()

    def column_problems(self, columns: Sequence[str]) -> Sequence[tuple[tuple[str | int, ...], str]]:
        """Return the reasons why rows with these columns cannot be written, each behind a path in the entry.

        Called by `eos validate` and before a start, if the columns are known.
        """
        return ()

    @property
    def has_several_tables(self) -> bool:
        """Whether the rows go to tables that are named by the rows, see `MultiTableSink`."""
        return False

    @property
    def needs_whole_splits(self) -> bool:
        """Whether one task must read all records of a split in a checkpoint, because their order decides."""
        return False

    @property
    def unroutable_to_letters(self) -> bool:
        """Whether rows without a table become dead letters."""
        return False

    @property
    def is_logged(self) -> bool:
        """Whether rows wait in the log of the pipeline (`checkpoint.log`) until a checkpoint is decided."""
        return self.commit != TWO_PHASE

    @property
    def rejects_after_decision(self) -> bool:
        """Whether the target can refuse a row after its checkpoint is decided."""
        return self.is_logged

    @property
    def is_local_file(self) -> bool:
        """Whether the target is a file of the driver's machine, so that tasks must run there."""
        return False

    def database_use(self, context: PipelineContext) -> DatabaseUse | None:
        """Return the connections at a server of a kind of `eos.databases`, for `eos doctor`; None if there are none."""
        return None

    def accepts_rejected_rows(self, sink: SinkEntry) -> bool:
        """Return whether this dead-letter entry takes the rows that `sink` refuses, in the sink's own transaction."""
        return False

    def fingerprint(self, context: PipelineContext) -> Sequence[tuple[str, str]]:
        """Return the settings that decide where rows go. Equal for two readings of an unchanged spec. Holds secrets."""
        settings: dict[str, Any] = {"log": context.log_at, **dict(self)}
        shown = {name: each.reveal() if isinstance(each, Url) else str(each) for name, each in settings.items()}
        return sorted(shown.items())

    def read_dead_letters(self) -> Sequence[DeadLetter]:
        """Return the visible dead letters of this entry `dead_letter`. Blocks. Raises SinkUnavailableError."""
        message = f"the dead letters of the connector {self.connector} cannot be read by eos"
        raise SpecError(message, remedy=f"read them where they are: {self.where}")

    def newest_dead_letters(self, most: int, reached: int) -> Sequence[DeadLetter]:
        """Return at most `most` visible dead letters, the newest first, to the page. Raises as `read_dead_letters`.

        `reached`: the id of the checkpoint in progress; higher ids are of earlier incarnations, and older. A connector
        overrides this method to read no more than `most`.
        """
        from connectors.dead_letters import newest  # loads pyarrow

        return newest(self.read_dead_letters(), most, reached)


class DeadLetterEntry(Strict):
    """Base of the entries `dead_letter`, to be put before the connector's own sink entry."""

    name: Title = NAME
    """Stands in transaction ids: do not change it while the pipeline lives."""
    from_: NonEmpty | None = Field(None, alias="from")
    """Not given: what comes here are records of every source."""

    @model_validator(mode="after")
    def _takes_all_records(self) -> Self:
        if self.from_ is not None:
            raise wrong("dead letters come from every source, not from a step", "without `from`", at="from")
        return self
