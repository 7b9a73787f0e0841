"""The entries of `transforms`: steps between the source and the sinks."""

from __future__ import annotations

import keyword
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from connectors.api.fields import Duration, NonEmpty, PositiveDuration, StepName, matching
from connectors.api.mistakes import nearest
from connectors.api.model import Strict, refuse, shown, wrong
from connectors.spec.expectations import DEAD_LETTER, Expectations
from connectors.spec.flow import command_in, without_code

TTL_ARGUMENT: Final = "state_ttl_ms"
"""The keyword argument by which a function gets `state_ttl`."""

_COMPLETE: Final = (
    "'complete' writes the whole result again at every checkpoint, and the table would hold it once for each"
)


def _names(value: object) -> object:
    """`from: a` is short for `from: [a]`."""
    return [value] if isinstance(value, str) else value


def _several(names: list[str]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise wrong(f"the step '{twice}' stands twice")
    return tuple(names)


def _plain(value: Any) -> Any:
    """Free-form values as plain, picklable Python data."""
    if isinstance(value, dict):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    return str(value) if isinstance(value, str) else value


def _keywords(options: dict[str, Any]) -> dict[str, Any]:
    for key in options:
        if not key.isidentifier() or keyword.iskeyword(key):
            raise wrong(f"'{key}' cannot be the name of a Python argument", at=key)
    return options


def _plain_query(sql: str) -> str:
    if word := command_in(sql):
        near = nearest(word, ("SELECT", "WITH", "FROM", "VALUES"))
        found = f"the sql begins with {word}: it is a command and no query"
        raise wrong(found, "SELECT …", "WITH …", "FROM …", suggestion=near)
    return without_code(sql, "a step with `python`, which says that it runs code")


class Watermark(Strict):
    """`watermark`: how late records of a time column may come."""

    column: NonEmpty
    """The time column."""
    delay_s: Duration = Field(alias="delay")
    """Later records than that are left out."""


class Step(Strict):
    """What all steps have."""

    name: StepName
    """The view under which later steps and sinks read it."""
    watermark: Watermark | None = None
    """How late records of a time column may come: when a stateful step may forget."""
    output_mode: Annotated[Literal["append", "update"], refuse({"complete": _COMPLETE})] = "append"
    """Whether a stateful step gives a result once, when it is final, or at every change."""
    expect: Expectations = Field(default_factory=list)
    """Rules for the rows of the step, each with an action for the rows that fail it."""

    @property
    def rejects_rows(self) -> bool:
        """Whether rows of the step may become dead letters instead of rows of the next steps."""
        return any(rule.action == DEAD_LETTER for rule in self.expect)


class SqlStep(Step):
    """`sql`: a query over the views of earlier steps. Which ones it names is Spark's to find out."""

    sql: Annotated[NonEmpty, AfterValidator(_plain_query)]
    """Spark SQL over the names of sources and earlier steps."""

    @model_validator(mode="before")
    @classmethod
    def _without_ttl(cls, value: object) -> object:
        if isinstance(value, dict) and "state_ttl" in value:
            raise wrong(
                "Spark has no TTL for aggregations, deduplications and joins",
                "watermark, which removes their state by event time",
                "a python step with transformWithState",
                at="state_ttl",
            )
        return value


class PythonStep(Step):
    """`python`: a function of DataFrames, called once when the query is built, with `options` as keyword arguments."""

    python: Annotated[str, matching(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "'module:function'")]
    """`module:function`, from beside the spec or installed: from DataFrames to a DataFrame."""
    from_: Annotated[
        list[str],
        BeforeValidator(_names, json_schema_input_type=str | list[str]),
        Field(min_length=1),
        AfterValidator(_several),
    ] = Field(alias="from")
    """The sources or earlier steps that the function gets, in this order."""
    sorts_by_offset: bool = False
    """The step sorts each key's rows by partition and offset, as needed above a source with `split_above`."""
    options: Annotated[dict[str, Any], BeforeValidator(_plain), AfterValidator(_keywords)] = Field(default_factory=dict)
    """Keyword arguments of the function."""
    state_ttl_s: PositiveDuration | None = Field(None, alias="state_ttl")
    """Time from the last update of a state variable of `transformWithState` until it expires. The function gets it as
    the keyword argument `state_ttl_ms`."""

    @property
    def arguments(self) -> dict[str, Any]:
        """All keyword arguments of the function."""
        if self.state_ttl_s is None:
            return self.options
        return {**self.options, TTL_ARGUMENT: round(self.state_ttl_s * 1000)}

    @model_validator(mode="after")
    def _one_ttl(self) -> Self:
        if self.state_ttl_s is not None and TTL_ARGUMENT in self.options:
            raise wrong("state_ttl is the argument 'state_ttl_ms', which options also sets", at="state_ttl")
        return self


SQL: Final = "<sql>"
PYTHON: Final = "<python>"
"""Tags of the two kinds; no key of a spec looks like them."""


def _one_kind(value: object) -> object:
    """Refuse an entry that is neither kind of step, or both."""
    if isinstance(value, dict) and ("sql" in value) == ("python" in value):
        found = "both 'sql' and 'python'" if "sql" in value else "neither 'sql' nor 'python'"
        raise wrong(found, "sql: a query", "python: 'module:function'")
    if not isinstance(value, (dict, Step)):
        raise wrong(f"wrong type: {shown(value)}", "a mapping with name, and sql or python")
    return value


def _kind(value: object) -> str:
    return SQL if isinstance(value, SqlStep) or (isinstance(value, dict) and "sql" in value) else PYTHON


TransformStep = Annotated[
    Annotated[SqlStep, Tag(SQL)] | Annotated[PythonStep, Tag(PYTHON)],
    Discriminator(_kind),
    BeforeValidator(_one_kind),
]
