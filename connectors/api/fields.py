"""The types of single values: counts, durations, names, URLs, and other systems' settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema

from connectors.api.document import Document, Section, Text
from connectors.api.login import LoginOptionsError, token_login
from connectors.api.masking import Url
from connectors.api.model import Strict, refuse, shown, wrong
from connectors.api.url_form import ESCAPES, has_unescaped, mistake_in


def _number(value: object) -> object:
    """Numbers from the environment come as text."""
    if isinstance(value, Text):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value


def regular_expression(pattern: str) -> str:
    """Return the pattern. Raises ValueError, a mistake of the spec, if it is not a regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise wrong(f"'{pattern}' is not a regular expression: {error}", "for example 'orders-.*'") from None
    return pattern


REFERENCE: Final = {"type": "string", "pattern": r"\$\{"}
"""In the schema for editors: a value that comes from elsewhere, which only loading the spec can judge."""


def _written(kind: str, least: float, most: float) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind, "minimum": least, "maximum": most}, REFERENCE]})


_LARGEST: Final = 2**31 - 1
Count = Annotated[int, Field(ge=0, le=_LARGEST), _written("integer", 0, _LARGEST)]
AtLeastOne = Annotated[int, Field(ge=1, le=_LARGEST), _written("integer", 1, _LARGEST)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), _written("number", 0, 1)]
Factor = Annotated[float, Field(ge=1, le=100, allow_inf_nan=False), _written("number", 1, 100)]


def _record_cap(value: object) -> int | Literal["auto"]:
    number = _number(value)
    if number == "auto":
        return "auto"
    allowed = (f"a number from 1 to {_LARGEST:,}", "auto")
    if not isinstance(number, int) or isinstance(number, bool):
        raise wrong(f"wrong value: {shown(value)}", *allowed)
    if not 1 <= number <= _LARGEST:
        raise wrong(f"too {'small' if number < 1 else 'large'}: {number}", *allowed)
    return number


RecordCap = Annotated[
    int | Literal["auto"],
    PlainValidator(_record_cap),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": _LARGEST}, {"const": "auto"}, REFERENCE]}),
]
"""So many records, or as many as take about as long as a checkpoint should."""

_PERCENT: Final = re.compile(r"(\d{1,3}(?:\.\d{1,3})?) ?%", re.ASCII)


def _record_limit(value: object) -> int | str:
    number = _number(value)
    allowed = (f"a number of records from 0 to {_LARGEST:,}", "a share of a checkpoint's records, such as 5%")
    if isinstance(number, str) and (match := _PERCENT.fullmatch(number)) and float(match[1]) <= 100:
        return f"{match[1]}%"
    if not isinstance(number, int) or isinstance(number, bool):
        raise wrong(f"wrong value: {shown(value)}", *allowed)
    if not 0 <= number <= _LARGEST:
        raise wrong(f"too {'small' if number < 0 else 'large'}: {number}", *allowed)
    return number


RecordLimit = Annotated[
    int | str,
    PlainValidator(_record_limit),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": _LARGEST},
                {"type": "string", "pattern": r"^\d{1,3}(\.\d{1,3})? ?%$"},
                REFERENCE,
            ]
        }
    ),
]
"""So many records of a checkpoint, or a share of them."""

SLOTS: Final = 2
"""Unless the spec says otherwise."""

Slots = Annotated[int, Field(ge=1, le=64)]
"""How many connections apply a checkpoint of a log at once."""

_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?([a-zµ]+)", re.ASCII | re.IGNORECASE)
_DURATION_EXAMPLES: Final = ["500ms", "2s", "10min", "1h"]
_DURATION_SCHEMA: Final = WithJsonSchema(
    {
        "anyOf": [{"type": "string", "pattern": r"^\d{1,9}(\.\d{1,6})? ?(ms|s|min|h|d)$"}, REFERENCE],
        "examples": _DURATION_EXAMPLES,
    }
)
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATIONS: Final = ("a number and a unit: 500ms, 2s, 10min, 1h, 1d",)


def _duration(value: object) -> float:
    """Seconds from `2s`. A number without a unit is refused: nobody knows what it means."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise wrong(f"{value} has no unit", *_DURATIONS, suggestion=f"{value}s")
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise wrong(f"{shown(value)} is not a duration", *_DURATIONS)
    number, unit = match.groups()
    if unit not in _UNITS_S:
        near = {"m": "min", "sec": "s", "seconds": "s", "minutes": "min", "hours": "h", "days": "d"}.get(unit.lower())
        raise wrong(f"unknown unit '{unit}' in '{value}'", *_DURATIONS, suggestion=f"{number}{near}" if near else "")
    return float(number) * _UNITS_S[unit]


def _positive(value: float) -> float:
    if value <= 0:
        raise wrong("0 is too short", "a duration above 0")
    return value


Duration = Annotated[float, BeforeValidator(_duration), _DURATION_SCHEMA]
"""Seconds, 0 included."""

PositiveDuration = Annotated[Duration, AfterValidator(_positive), _DURATION_SCHEMA]


def is_duration(schema: Mapping[str, object]) -> bool:
    """Whether a JSON schema is that of a duration."""
    return schema.get("examples") == _DURATION_EXAMPLES


_SIZE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?([KMGT]i?B|B)", re.ASCII)
_UNITS_BYTES: Final = {"B": 1, **{f"{p}B": 1000**n for n, p in enumerate("KMGT", 1)}} | {
    f"{p}iB": 1024**n for n, p in enumerate("KMGT", 1)
}


def _size(value: object) -> int:
    """Bytes from `1GiB`. A number without a unit is refused, as for durations."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise wrong(f"{shown(value)} is not a size", "a number and a unit: 500KB, 64MiB, 1GiB")
    number, unit = match.groups()
    return int(float(number) * _UNITS_BYTES[unit])


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": r"^\d{1,9}(\.\d{1,6})? ?([KMGT]i?B|B)$"}, REFERENCE]}),
]
"""Bytes."""


def matching(pattern: str, what: str) -> AfterValidator:
    """Text of a certain form."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise wrong(f"{shown(value)} is not {what}", what)
        return value

    return AfterValidator(check)


def _printable(value: str) -> str:
    if not value.isprintable():
        raise wrong(f"{shown(value)} has characters that cannot be printed", "printable characters")
    return value


Printable = Annotated[str, AfterValidator(_printable)]
Title = Annotated[Printable, Field(min_length=1, max_length=200)]
NonEmpty = Annotated[str, Field(min_length=1)]
Topic = Annotated[
    str,
    refuse({".": "'.' is not a topic", "..": "'..' is not a topic"}),
    matching(r"[A-Za-z0-9._-]{1,249}", "a topic's name (letters, digits, '.', '_' and '-'; no patterns)"),
]
BootstrapServers = Annotated[NonEmpty, matching(r"\S+", "host:port, or several with commas and no blanks")]
StepName = Annotated[str, Field(max_length=200), matching(r"[A-Za-z_][A-Za-z0-9_]*", "a name of letters, digits and _")]

_URL: Final = re.compile(r"[a-z][a-z0-9_]*(\+[a-z0-9_]+)?://[^\s]*", re.IGNORECASE)


def database_url(example: str, accepts: Callable[[str], bool] = bool) -> PlainValidator:
    """A URL of SQLAlchemy's form whose scheme `accepts` takes. Its password is not shown when it is wrong, either."""

    def check(value: object) -> Url:
        if isinstance(value, Url):
            return value
        if not isinstance(value, str):
            raise wrong(f"{shown(value)} is not a URL", example)
        url = Url(value)
        if not _URL.fullmatch(value):
            is_safe = "@" not in value and "=" not in value  # a mistyped URL shows its password
            raise wrong(f"{shown(value) if is_safe else 'the value'} is not a database URL", example)
        if has_unescaped(value):
            found = "the user name or the password of the URL contains a character that ends it, such as / or @"
            raise wrong(found, f"{example}; {ESCAPES}")
        if mistake := mistake_in(value):
            raise wrong(mistake, example)
        if not accepts(url.scheme):
            raise wrong(f"'{url.scheme}' is not a driver for this", example)
        try:
            token_login(value)
        except LoginOptionsError as error:
            raise wrong(error.message, error.remedy) from None
        return url

    return PlainValidator(check, json_schema_input_type=str)


def _as_written(value: object) -> object:
    if not isinstance(value, Section):
        return value
    return {key: value[key] if value[key] is None else value.texts.get(key, value[key]) for key in value}


as_written: Final = BeforeValidator(_as_written, json_schema_input_type=dict[str, str | int | float | bool])
"""Another system's settings as text, each scalar as it was written: `1.10` stays `1.10`."""


def without(refused: Mapping[str, str]) -> AfterValidator:
    """Another system's settings, without those that this framework sets itself (each with what to do instead)."""

    def check(value: dict[str, str]) -> dict[str, str]:
        for key, instead in refused.items():
            if key in value:
                raise wrong(f"'{key}' cannot be set here: {instead}", at=key)
        return value

    return AfterValidator(check)


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)")


def local_path(value: object, info: ValidationInfo, others: Sequence[str] = ()) -> Path:
    """A path on this machine, made absolute from the spec's folder. `others`: what might stand there as well."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value or "\0" in value:
        raise wrong(f"{shown(value)} is not a path", "a path, relative to the spec's folder or absolute", *others)
    text = value
    if scheme := _SCHEME.match(value):
        _check_scheme(scheme[1], scheme[2], others)
        text = value[scheme.start(2) + len("//") :]
    path = Path(text).expanduser() if text.startswith("~/") else Path(text)  # in `./~/a` it is a folder of that name
    folder = info.context.folder if isinstance(info.context, Document) else Path.cwd()
    return Path(folder, path)


def _check_scheme(scheme: str, slashes: str, others: Sequence[str]) -> None:
    """Raise ValueError, a mistake of the spec, unless it is the beginning of `file:///path`.

    `s3:/bucket` would be a folder of the name `s3:`, and would keep a pipeline's memory on the local disk.
    """
    is_file = scheme.lower() == "file"
    if not is_file and len(slashes) >= 2:
        raise wrong(f"'{scheme}://' is not possible here", "a path on a local disk", *others)
    if not is_file or len(slashes) < 3:
        found = f"'{scheme}:{slashes}' is not the beginning of a URL"
        raise wrong(found, "file:///path", *others, f"./{scheme}:/… for a folder of this name")


LocalPath = Annotated[Path, PlainValidator(local_path, json_schema_input_type=str)]


class MaxBacklog(Strict):
    """`max_backlog`: how far a sink may be behind; then the pipeline waits for the sink."""

    checkpoints: Annotated[AtLeastOne, Field(le=10_000)]
    """Completed checkpoints that are not yet visible in the sink; at most 99 with `commit: two-phase`."""
    max_bytes: Size | None = Field(None, alias="bytes")
    """Bytes of these checkpoints in the log, such as `1GiB`; without it, only checkpoints count."""
