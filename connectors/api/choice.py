"""Validation of a part of the spec by the model of the plugin that one of its keys names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from connectors.api import plugins
from connectors.api.model import shown, wrong

M = TypeVar("M", bound=BaseModel)


def _has_schema(model: type[BaseModel]) -> bool:
    """Return whether a plugin's model has a JSON Schema: a type of the plugin's own may have none."""
    try:
        model.model_json_schema()
    except Exception:  # noqa: BLE001 the code of a plugin's type
        return False
    return True


class Chosen(Generic[M]):
    """Annotation of a field whose model is a plugin's: `Annotated[SinkEntry, Chosen("eos.sinks", "connector", …)]`.

    `model_of`: from the plugin's class to the model of this field; None refuses the plugin here, with `refusal`.
    `other_names`: suggestions for names that others use. `unknown`: a message for names that need another answer.
    """

    def __init__(
        self,
        group: str,
        key: str,
        base: type[M],
        model_of: Callable[[type[M]], type[M] | None] = lambda found: found,
        refusal: str = "",
        *,
        other_names: Mapping[str, str] = MappingProxyType({}),
        unknown: Callable[[str], str] = lambda name: "",
    ) -> None:
        self._group = group
        self._key = key
        self._base = base
        self._model_of = model_of
        self._refusal = refusal
        self._other_names = other_names
        self._unknown = unknown

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the union of the installed plugins that can be loaded."""
        choices: dict[Any, CoreSchema] = {}
        for name in plugins.installed(self._group):
            try:
                model = self._model_of(plugins.load(self._group, name, self._base))
            except plugins.PluginError:
                continue  # `eos connectors` reports it
            if model is not None and (plugins.find(self._group, name).is_built_in or _has_schema(model)):
                choices[name] = model.__pydantic_core_schema__
        if len(choices) == 1:
            return handler(*choices.values())
        return handler(core_schema.tagged_union_schema(choices, discriminator=self._key))

    def _validate(self, value: Any, info: ValidationInfo) -> M:
        if isinstance(value, self._base):
            return value
        if not isinstance(value, Mapping):
            raise PydanticKnownError("model_attributes_type")
        name = value.get(self._key)
        if self._key not in value:
            raise wrong(f"missing key '{self._key}'", *plugins.installed(self._group), at=self._key)
        model = self._model(name)
        try:
            return model.model_validate(value, context=info.context)
        except (ValueError, AssertionError):  # mistakes of the entry
            raise
        except (Exception, SystemExit) as error:  # of a plugin's validator; the message may quote a secret
            found = plugins.find(self._group, str(name))
            if found.is_built_in:
                raise
            what = f"{plugins.GROUPS[self._group]} {name!r} of {found}"
            raise wrong(f"{what} cannot check this entry: {type(error).__name__}", at=self._key) from None

    def _model(self, name: object) -> type[M]:
        if not isinstance(name, str):
            raise wrong(f"wrong value: {shown(name)}", *plugins.installed(self._group), at=self._key)
        try:
            model = self._model_of(plugins.load(self._group, name, self._base))
        except plugins.UnknownPluginError as error:
            if not error.known:
                raise wrong(f"{error.message}; {error.remedy}", at=self._key) from None
            if found := self._unknown(name):
                raise wrong(found, *error.known, at=self._key) from None
            near = self._other_names.get(name, error.suggestion)
            raise wrong(f"wrong value: {shown(name)}", *error.known, suggestion=near, at=self._key) from None
        except plugins.PluginError as error:
            raise wrong(f"{error.message}; {error.remedy}", at=self._key) from None
        if model is None:
            raise wrong(f"'{name}' {self._refusal}", at=self._key)
        return model
