"""What the models of the spec are made of: the strict base, and how a validator refuses.

A validator refuses with `wrong(…)`, which carries what was found, what is allowed and the nearest name; the loader
adds path and line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from connectors.api.document import Document, Section
from connectors.api.masking import MASK, mask
from connectors.api.mistakes import nearest
from eos.errors import SpecError

WRONG: Final = "eos_spec"
"""The error type of `wrong`, by which the loader knows it."""


def wrong(found: str, *allowed: str, suggestion: str = "", at: str = "") -> PydanticCustomError:
    """Return the error that a validator raises. `at`: the key, inside the validated mapping, that is wrong."""
    context = {"found": found, "allowed": allowed, "suggestion": suggestion, "at": at}
    return PydanticCustomError(WRONG, "{found}", context)


def mistaken(error: SpecError, at: str = "") -> PydanticCustomError:
    """Return the error that a validator raises where building what an entry describes has raised `error`."""
    return wrong(error.message, *([error.remedy] if error.remedy else []), at=at)


class Strict(BaseModel):
    """Base of all models: immutable, no conversions, no unknown keys, and no secret in its repr."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        populate_by_name=True,
        use_attribute_docstrings=True,  # the texts below the fields stand in `eos schema`
    )

    removed: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions, each with what replaces it."""

    composing: ClassVar[Sequence[str]] = ()
    """Keys that are resolved before validation. Messages list them as allowed."""

    _secrets: frozenset[str] = PrivateAttr(default=frozenset())

    @model_validator(mode="before")
    @classmethod
    def _keep_known_keys(cls, data: Any, info: ValidationInfo) -> Any:
        """Report unknown and removed keys with what is allowed, and go on with the others: all mistakes at once."""
        if not isinstance(data, Section) or not isinstance(info.context, Document):
            return data
        allowed = tuple(field.alias or name for name, field in cls.model_fields.items())
        for key in data:
            if key in cls.removed:
                info.context.report((*data.path, key), f"the key '{key}' was removed: {cls.removed[key]}")
            elif key not in allowed:
                listed = tuple(each for each in (*allowed, *cls.composing) if each != key)
                near = nearest(key, listed)
                info.context.report((*data.path, key), f"unknown key '{key}'", listed, near)
                info.context.meant.add((*data.path, near))
        cls._report_missing_choices(data, info.context)
        return {key: value for key, value in data.items() if key in allowed}

    @classmethod
    def _report_missing_choices(cls, data: Section, document: Document) -> None:
        """Report each missing key that takes one of a few values, with these values."""
        for name, field in cls.model_fields.items():
            key = field.alias or name
            path = (*data.path, key)
            choices = cls.choices_of(name) if field.is_required() and key not in data else {}
            if choices and path not in document.meant:
                described = tuple(choices.items()) if all(choices.values()) else ()
                document.report(path, f"missing key '{key}'", () if described else tuple(choices), choices=described)
                document.meant.add(path)

    @classmethod
    def choices_of(cls, name: str) -> Mapping[str, str]:
        """Return the values that a field takes, each with its meaning or an empty text; empty for a free value."""
        annotation = cls.model_fields[name].annotation
        return {str(value): "" for value in get_args(annotation)} if get_origin(annotation) is Literal else {}

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


def only(default: object, shown: str) -> AfterValidator:
    """For a setting of a feature that is not built yet: its default and nothing else."""

    def check(value: object) -> object:
        if value != default:
            found = "not built yet: any value but the default"
            raise wrong(found, shown)
        return value

    return AfterValidator(check)


def shown(value: object) -> str:
    """A value in a message, with its kind. Not shortened: half of a secret would not be known as one."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"{str(value).lower()} (true or false)"
    if isinstance(value, (int, float)):
        return f"{value} (a number)"
    if isinstance(value, str):
        return f"'{value}'" if value else "an empty text"
    return "a mapping" if isinstance(value, Mapping) else "a list" if isinstance(value, (list, tuple)) else MASK
