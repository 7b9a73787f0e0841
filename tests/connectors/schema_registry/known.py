"""Formats that find given schemas, in the place of a registry. Tests on servers have a real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from connectors.schema_registry.client import Connection, RegisteredSchema

_MODULES: Final = ("registered", "json_recognition", "avro.writers", "protobuf.writers", "debezium.inference")
"""Below `connectors.formats`: those that look schemas up."""


def give_schemas(monkeypatch: pytest.MonkeyPatch, schemas: Mapping[int, RegisteredSchema]) -> None:
    """Have all formats find these schemas by their ids, and no others. A test may add some later."""

    def schemas_of(_: Connection, ids: Sequence[int]) -> dict[int, RegisteredSchema | None]:
        return {each: schemas.get(each) for each in ids}

    for module in _MODULES:
        monkeypatch.setattr(f"connectors.formats.{module}.schemas_of", schemas_of)
