"""What the models of the spec are made of: the strict base, and the types of single values.

A validator refuses with `wrong(…)`, which carries what was found, what is allowed and the nearest name; the loader
adds path and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from connectors.spec.document import Document, Section
from connectors.spec.mistakes import nearest
from connectors.spec.secrets import MASK, Url, mask, passwords_in
from connectors.spec.substitution import Text

WRONG: Final = "eos_spec"
"""The error type of `wrong`, by which the loader knows it."""


def wrong(found: str, *allowed: str, suggestion: str = "", at: str = "") -> PydanticCustomError:
    """What a validator raises. `at`: the key inside the validated mapping that is meant."""
    context = {"found": found, "allowed": allowed, "suggestion": suggestion, "at": at}
    return PydanticCustomError(WRONG, "{found}", context)


class Strict(BaseModel):
    """Base of all models: immutable, no conversions, no unknown keys, and no secret in its repr."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True
    )

    not_built: ClassVar[Mapping[str, str]] = {}
    """Keys whose place is reserved, and what they will do."""

    _secrets: frozenset[str] = PrivateAttr(default=frozenset())

    @model_validator(mode="before")
    @classmethod
    def _keep_known_keys(cls, data: Any, info: ValidationInfo) -> Any:
        """Report unknown and reserved keys with what is allowed, and go on with the others: all mistakes at once."""
        if not isinstance(data, Section) or not isinstance(info.context, Document):
            return data
        allowed = tuple(field.alias or name for name, field in cls.model_fields.items())
        for key in data:
            if key in cls.not_built:
                if data[key] is not None:
                    info.context.report((*data.path, key), f"not built yet: {cls.not_built[key]}")
            elif key not in allowed:
                near = nearest(key, allowed)
                info.context.report((*data.path, key), f"unknown key '{key}'", allowed, near)
                info.context.meant.add((*data.path, near))
        return {key: value for key, value in data.items() if key in allowed}

    def model_post_init(self, context: Any, /) -> None:
        """Remember what must not be shown."""
        if isinstance(context, Document):
            self._secrets = context.secrets

    def __repr__(self) -> str:
        return mask(super().__repr__(), self._secrets)

    def __str__(self) -> str:
        return repr(self)


def refuse(reasons: Mapping[str, str]) -> BeforeValidator:
    """For a choice: values that are known and cannot be had here, each with the reason and the alternative."""

    def check(value: object) -> object:
        if isinstance(value, str) and value in reasons:
            raise wrong(reasons[value])
        return value

    return BeforeValidator(check)


def later(*values: str) -> BeforeValidator:
    """For a choice: values of the design that are not built yet."""
    return refuse({value: f"not built yet: '{value}'" for value in values})


def only(default: object, shown: str) -> AfterValidator:
    """For a setting of a feature that is not built yet: its default and nothing else."""

    def check(value: object) -> object:
        if value != default:
            found = "not built yet: any value but the default"
            raise wrong(found, shown)
        return value

    return AfterValidator(check)


def _number(value: object) -> object:
    """Numbers from the environment come as text."""
    if isinstance(value, Text):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value


_LARGEST: Final = 2**31 - 1
Count = Annotated[int, BeforeValidator(_number), Field(ge=0, le=_LARGEST)]
AtLeastOne = Annotated[int, BeforeValidator(_number), Field(ge=1, le=_LARGEST)]
Share = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1, allow_inf_nan=False)]
Factor = Annotated[float, BeforeValidator(_number), Field(ge=1, le=100, allow_inf_nan=False)]

_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?([a-zµ]+)", re.ASCII | re.IGNORECASE)
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


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds, 0 included."""

PositiveDuration = Annotated[Duration, AfterValidator(_positive)]


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
            raise wrong(f"{shown(str(url))} is not a database URL", example)
        if any("@" in password for password in passwords_in(value)) and value.count("@") > 1:
            raise wrong("more than one @ in the URL: write %40 for an @ inside user name or password", example)
        if not accepts(url.scheme):
            raise wrong(f"'{url.scheme}' is not a driver for this", example)
        return url

    return PlainValidator(check)


def _as_written(value: object) -> object:
    if not isinstance(value, Section):
        return value
    return {key: value[key] if value[key] is None else value.texts.get(key, value[key]) for key in value}


as_written: Final = BeforeValidator(_as_written)
"""Another system's settings as text, each scalar as it was written: `1.10` stays `1.10`."""


def without(refused: Mapping[str, str]) -> AfterValidator:
    """Another system's settings, without those that this framework sets itself (each with what to do instead)."""

    def check(value: dict[str, str]) -> dict[str, str]:
        for key, instead in refused.items():
            if key in value:
                raise wrong(f"'{key}' cannot be set here: {instead}", at=key)
        return value

    return AfterValidator(check)


def shown(value: object) -> str:
    """A value in a message: short, with its kind where that is what is wrong."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"{str(value).lower()} (true or false)"
    if isinstance(value, (int, float)):
        return f"{value} (a number)"
    if isinstance(value, str):
        text = value if len(value) <= 80 else f"{value[:40]}…"
        return f"'{text}'" if text else "an empty text"
    return "a mapping" if isinstance(value, Mapping) else "a list" if isinstance(value, (list, tuple)) else MASK
