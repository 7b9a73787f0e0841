"""The spec as a whole: one pipeline, immutable, with every default filled in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from connectors.api import plugins
from connectors.api.choice import Chosen
from connectors.api.document import Document
from connectors.api.entry import SinkEntry, SourceEntry
from connectors.api.fields import REFERENCE, Title, is_duration
from connectors.api.guarantee import PipelineContext
from connectors.api.login import extras_of
from connectors.api.masking import mask
from connectors.api.model import Strict, wrong
from connectors.spec.flow import behind, root_of, roots_of, sources_of
from connectors.spec.notifications import Notifications
from connectors.spec.settings import (
    CheckpointSettings,
    ExponentialDelaySettings,
    RestartSettings,
    SparkSettings,
    StateSettings,
)
from connectors.spec.steps import PythonStep, TransformStep
from connectors.spec.table_names import names_in
from wal.address import ObjectAddress

_Source = Annotated[SourceEntry, Chosen(plugins.SOURCES, "connector", SourceEntry)]
_Sink = Annotated[SinkEntry, Chosen(plugins.SINKS, "connector", SinkEntry)]
_DeadLetter = Annotated[
    SinkEntry,
    Chosen(plugins.SINKS, "connector", SinkEntry, lambda found: found.dead_letter_model(), "takes no dead letters"),
]
_OF_A_VALUE: Final = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
"""Keys of a schema that judge a value, which may be written as a reference as well."""

_PARTS: Final = {
    "include": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "Files with keys of the spec, from its folder. The spec's own keys take precedence.",
    },
    "profiles": {
        "type": "object",
        "additionalProperties": {"type": "object"},
        "description": "By name, keys that take precedence where `--profile` or EOS_PROFILE names the profile.",
    },
}
"""Keys that `connectors.spec.composing` has resolved before a spec is validated."""

CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
"""Spark's setting for `state.backend`. A spec without the section `state` may set it in `spark.conf`."""

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class Spec(Strict):
    """A valid spec with every default filled in. Immutable.

    Created by: `load_spec`. Read by: `run`, `ExactlyOnce` and every command. Its fields are the sections of the YAML
    file (docs/reference/spec.md). `mask` removes its secrets from a text.
    """

    composing: ClassVar[Sequence[str]] = tuple(_PARTS)

    version: Literal[1] = 1
    """Of the spec's format."""
    pipeline: Title
    """The pipeline's identity: part of transaction ids, witnesses and claim rows."""
    checkpoint: CheckpointSettings
    """Where the pipeline's memory is, and how often it decides."""
    sources: Annotated[list[_Source], Field(min_length=1)] = Field(default_factory=list)
    """What is read; each is a view for the steps. Left out where a job of one's own writes by `ExactlyOnce`."""
    transforms: list[TransformStep] = Field(default_factory=list)
    """Steps between sources and sinks, in order."""
    sinks: Annotated[list[_Sink], Field(min_length=1)]
    """What is written. One checkpoint covers all of it."""
    dead_letter: _DeadLetter | None = None
    """A sink for records that do not decode, written in the same checkpoint as what stood beside them."""
    state: StateSettings = StateSettings()
    """How steps with state store it."""
    restart: RestartSettings = ExponentialDelaySettings()
    """What follows a failure that a restart can cure."""
    notifications: Notifications = Field(default_factory=list)
    """Endpoints that get failures, dead letters, lag and schema changes."""
    spark: SparkSettings = SparkSettings()
    """The session that the pipeline runs in."""

    _folder: Path = PrivateAttr(default_factory=Path.cwd)
    _text: str = PrivateAttr(default="")
    _included: tuple[Path, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _dead_letters_by_default(self) -> Self:
        if self.dead_letter is not None:
            aside = {"on_bad_record": "dead-letter"}
            self.sources[:] = [s if s.on_bad_record is not None else s.model_copy(update=aside) for s in self.sources]
        return self

    @model_validator(mode="after")
    def _one_backend(self) -> Self:
        said = self.spark.conf.get(CHANGELOG)
        if said is not None and self.has_backend and said.strip().lower() != self.changelog:
            found = f"spark.conf sets {CHANGELOG} to {said}, which is another backend"
            raise wrong(found, f"leave {CHANGELOG} out of spark.conf", at="state")
        return self

    def model_post_init(self, context: Any, /) -> None:
        """Remember where the file is."""
        super().model_post_init(context)
        if isinstance(context, Document):
            self._folder = context.folder
            self._text = context.text
            self._included = tuple(context.included)

    @property
    def folder(self) -> Path:
        """The spec's folder, absolute: relative paths and Python modules start here."""
        return self._folder

    @property
    def included(self) -> tuple[Path, ...]:
        """The files that the spec's file includes."""
        return self._included

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
        head = self.checkpoint.head
        of_head = extras_of(head.reveal()) if head is not None else frozenset[str]()
        places = (self.checkpoint.location_at, self.checkpoint.log_at)
        of_stores = {"hdfs" for at in places if isinstance(at, ObjectAddress) and at.scheme == "hdfs"}
        return of_head.union(of_stores, *(each.extras for each in entries))

    @property
    def has_backend(self) -> bool:
        """Whether the spec's file names the state backend."""
        return "backend" in self.state.model_fields_set

    @property
    def changelog(self) -> str:
        """The value of Spark's setting `CHANGELOG` for the state backend."""
        return str(self.state.backend == "rocksdb-changelog").lower()

    @property
    def has_python_steps(self) -> bool:
        """Whether it names modules of the user's, which may stand beside it: all else in a spec is data."""
        return any(isinstance(step, PythonStep) for step in self.transforms)

    def refuses_into_letters(self, entry: SinkEntry) -> bool:
        """Whether rows that this sink refuses when its log is applied go to `dead_letter`, in the same transaction."""
        letter = self.dead_letter
        return letter is not None and entry is not letter and letter.accepts_rejected_rows(entry)

    @property
    def context(self) -> PipelineContext:
        """The settings of the pipeline as a whole that entries depend on."""
        return self._context(self.sources)

    def context_of(self, entry: SinkEntry) -> PipelineContext:
        """Return the settings that the entry of a sink depends on: of the sources, only those that feed the sink."""
        return self._context(self.sources_of(entry))

    def _context(self, sources: Sequence[SourceEntry]) -> PipelineContext:
        return PipelineContext(
            pipeline=self.pipeline,
            at_least_once=self.checkpoint.at_least_once,
            interval_s=self.checkpoint.interval_s,
            timeout_s=self.checkpoint.timeout_s,
            log_at=self.checkpoint.log_at,
            several_topics=_several_topics(sources),
            max_dead_letters=self.checkpoint.max_dead_letters,
            mask=self.mask,
            location=self.checkpoint.folder,
            connections=self.checkpoint.connections,
            several_rows=any(source.has_several_rows for source in self.sources),
        )

    @property
    def roots(self) -> list[str]:
        """The last source or step in common of each group of sinks, see `flow`; empty without sources."""
        names = [source.name for source in self.sources]
        return roots_of(self.inputs, names, self.wanted) if self.sources else []

    @property
    def has_watermark(self) -> bool:
        """Whether a step has a watermark, which Spark keeps from batch to batch."""
        return any(step.watermark is not None for step in self.transforms)

    @property
    def trunk(self) -> str | None:
        """The only root; None if there are several, and without sources."""
        roots = self.roots
        return roots[0] if len(roots) == 1 else None

    def root_of(self, name: str) -> str:
        """Return the root through which the rows of a source or step pass, of a spec with sources."""
        roots = self.roots
        return root_of(self.inputs, roots, name) or roots[0]

    def sources_of(self, entry: SinkEntry) -> list[SourceEntry]:
        """Return the sources that feed a sink: all sources for dead letters."""
        if entry.from_ is None:
            return list(self.sources)
        names = sources_of(self.inputs, [source.name for source in self.sources], entry.from_)
        return [source for source in self.sources if source.name in names]

    @property
    def branches(self) -> list[TransformStep]:
        """The steps behind the roots that sinks need, in order."""
        roots = self.roots
        names = behind(self.inputs, roots, self.wanted) if roots else ()
        return [step for step in self.transforms if step.name in names]

    @property
    def inputs(self) -> dict[str, list[str]]:
        """By the name of each source and step, in order: what it reads."""
        inputs: dict[str, list[str]] = {source.name: [] for source in self.sources}
        for step in self.transforms:
            inputs[step.name] = list(step.from_) if isinstance(step, PythonStep) else names_in(step.sql, inputs)
        return inputs

    @property
    def wanted(self) -> list[str]:
        """The steps whose rows leave the flow: to a sink, or as dead letters."""
        rejecting = [step.name for step in self.transforms if step.rejects_rows]
        return [*(sink.from_ for sink in self.sinks if sink.from_ is not None), *rejecting]

    @property
    def expecting(self) -> list[TransformStep]:
        """The steps with rules, in order."""
        return [step for step in self.transforms if step.expect]

    @property
    def secrets(self) -> frozenset[str]:
        """What must never be shown, for `mask`."""
        return self._secrets

    def mask(self, text: str) -> str:
        """The text without this spec's secrets. For every message, log and plan."""
        return mask(text, self._secrets)


def _several_topics(sources: Sequence[SourceEntry]) -> bool | None:
    """Whether records of these sources may be of more than one topic; None: not known, in a user's own job."""
    return len(sources) > 1 or not sources[0].is_one_topic if sources else None


def json_schema() -> dict[str, Any]:
    """The schema of a spec as users write it: keys by their aliases, durations as text. Pure."""
    schema = _with_references(_readable(Spec.model_json_schema(by_alias=True)))
    needed = schema.pop("required")
    schema["anyOf"] = [{"required": needed}, {"required": ["include"]}]  # an included file may have the other keys
    schema["properties"] = {**_PARTS, **schema["properties"]}
    return {"$schema": _DIALECT, **schema, "title": "eos pipeline"}


def _with_references(node: Any) -> Any:
    """Return a schema in which a number, a boolean and a choice may be written as a reference, `${NAME}`, as well."""
    if isinstance(node, list):
        return [_with_references(each) for each in node]
    if not isinstance(node, dict):
        return node
    union = node.get("anyOf", ())
    if any(_takes_no_reference(each) for each in union):
        texts = [each for each in union if each == REFERENCE or each == {"type": "string"}]
        members = [each if _takes_no_reference(each) else _with_references(each) for each in union]
        return {**node, "anyOf": [*members, *([] if texts else [REFERENCE])]}
    if _takes_no_reference(node):
        written = {key: value for key, value in node.items() if key in _OF_A_VALUE}
        rest = {key: value for key, value in node.items() if key not in _OF_A_VALUE}
        return {**rest, "anyOf": [written, REFERENCE]}
    return {key: _with_references(value) for key, value in node.items()}


def _takes_no_reference(node: Any) -> bool:
    kinds = ("integer", "number", "boolean")
    return isinstance(node, dict) and (node.get("type") in kinds or isinstance(node.get("enum"), list))


def _readable(node: Any) -> Any:
    """Without titles, which only repeat the keys; with defaults in the form in which they would be written."""
    if isinstance(node, list):
        return [_readable(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: _readable(value) for key, value in node.items() if key != "title" or not isinstance(value, str)}
    if "default" in found and is_duration(found):
        found["default"] = f"{found['default']:g}s"
    elif found.get("default") is None or isinstance(found["default"], dict):
        found.pop("default", None)  # null says nothing; a section's default is the sum of its keys'
    return found
