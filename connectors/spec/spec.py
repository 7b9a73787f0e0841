"""The spec as a whole: one pipeline, immutable, with every default filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from connectors.login_options import extras_of
from connectors.spec.dead_letter import DeadLetterEntry
from connectors.spec.document import Document
from connectors.spec.fields import Title
from connectors.spec.flow import behind, trunk_of
from connectors.spec.kafka_sink import KafkaSinkEntry
from connectors.spec.model import Strict
from connectors.spec.secrets import mask
from connectors.spec.security import Secured
from connectors.spec.settings import CheckpointSettings, ExponentialDelaySettings, RestartSettings, SparkSettings
from connectors.spec.sinks import MySqlEntry, PostgresEntry, SinkEntry
from connectors.spec.sources import KafkaEntry
from connectors.spec.steps import PythonStep, TransformStep
from connectors.spec.table_names import names_in


class Spec(Strict):
    """A valid spec with every default filled in. Immutable.

    Created by: `load_spec`. Read by: `run`, `ExactlyOnce` and every command. Its fields are the sections of the YAML
    file (docs/spec.md). `mask` removes its secrets from a text.
    """

    version: Literal[1] = 1
    """Of the spec's format."""
    pipeline: Title
    """The pipeline's identity: part of transaction ids, witnesses and claim rows."""
    checkpoint: CheckpointSettings
    """Where the pipeline's memory is, and how often it decides."""
    sources: Annotated[list[KafkaEntry], Field(min_length=1)] = Field(default_factory=list)
    """What is read; each is a view for the steps. Left out where a job of one's own writes by `ExactlyOnce`."""
    transforms: list[TransformStep] = Field(default_factory=list)
    """Steps between sources and sinks, in order."""
    sinks: Annotated[list[SinkEntry], Field(min_length=1)]
    """What is written. One checkpoint covers all of it."""
    dead_letter: DeadLetterEntry | None = None
    """A sink for records that do not decode, written in the same checkpoint as what stood beside them."""
    restart: RestartSettings = ExponentialDelaySettings()
    """What follows a failure that a restart can cure."""
    spark: SparkSettings = SparkSettings()
    """The session that the pipeline runs in."""

    _folder: Path = PrivateAttr(default_factory=Path.cwd)
    _text: str = PrivateAttr(default="")

    @model_validator(mode="after")
    def _dead_letters_by_default(self) -> Self:
        if self.dead_letter is not None:
            aside = {"on_bad_record": "dead-letter"}
            self.sources[:] = [s if s.on_bad_record is not None else s.model_copy(update=aside) for s in self.sources]
        return self

    def model_post_init(self, context: Any, /) -> None:
        """Remember where the file is."""
        super().model_post_init(context)
        if isinstance(context, Document):
            self._folder = context.folder
            self._text = context.text

    @property
    def folder(self) -> Path:
        """The spec's folder, absolute: relative paths and Python modules start here."""
        return self._folder

    @property
    def text(self) -> str:
        """The file as it is written, with `${…}` in the place of what they stand for, and other secrets masked."""
        return self.mask(self._text)

    @property
    def outputs(self) -> list[SinkEntry]:
        """All sinks of a checkpoint: `sinks`, and `dead_letter` behind them."""
        return [*self.sinks, *([self.dead_letter] if self.dead_letter is not None else [])]

    @property
    def extras(self) -> frozenset[str]:
        """Of `eos-spark`: whose packages it needs, here and wherever tasks run."""
        entries = [*self.sources, *self.outputs]
        urls = [each.url for each in entries if isinstance(each, (MySqlEntry, PostgresEntry))]
        urls += [self.checkpoint.head] if self.checkpoint.head is not None else []
        clients = [each.extras for each in entries if isinstance(each, Secured)]
        return frozenset().union(*clients, *(extras_of(url.reveal()) for url in urls))

    @property
    def has_python_steps(self) -> bool:
        """Whether it names modules of the user's, which may stand beside it: all else in a spec is data."""
        return any(isinstance(step, PythonStep) for step in self.transforms)

    def refuses_into_letters(self, entry: SinkEntry) -> bool:
        """Whether rows that this sink refuses when its log is applied go to `dead_letter`, in the same transaction."""
        letter = self.dead_letter
        if letter is None or entry is letter or isinstance(entry, KafkaSinkEntry) or isinstance(letter, KafkaSinkEntry):
            return False
        same = (entry.connector, entry.database) == (letter.connector, letter.database)
        return same and entry.commit != "two-phase"

    @property
    def trunk(self) -> str | None:
        """The last source or step through which the rows of all sinks pass, see `flow`; None without sources."""
        names = [source.name for source in self.sources]
        return trunk_of(self.inputs, names, self._wanted) if self.sources else None

    @property
    def several_topics(self) -> bool | None:
        """Whether records of more than one topic may come to the sinks; None: not known, in a job of one's own."""
        if not self.sources:
            return None
        first, *others = self.sources
        return bool(others) or first.topics is None or len(first.topics) > 1

    @property
    def branches(self) -> list[TransformStep]:
        """The steps behind the trunk that sinks need, in order."""
        trunk = self.trunk
        names = behind(self.inputs, trunk, self._wanted) if trunk is not None else ()
        return [step for step in self.transforms if step.name in names]

    @property
    def inputs(self) -> dict[str, list[str]]:
        """By the name of each source and step, in order: what it reads."""
        inputs: dict[str, list[str]] = {source.name: [] for source in self.sources}
        for step in self.transforms:
            inputs[step.name] = list(step.from_) if isinstance(step, PythonStep) else names_in(step.sql, inputs)
        return inputs

    @property
    def _wanted(self) -> list[str]:
        return [sink.from_ for sink in self.sinks if sink.from_ is not None]

    @property
    def secrets(self) -> frozenset[str]:
        """What must never be shown, for `mask`."""
        return self._secrets

    def mask(self, text: str) -> str:
        """The text without this spec's secrets. For every message, log and plan."""
        return mask(text, self._secrets)
