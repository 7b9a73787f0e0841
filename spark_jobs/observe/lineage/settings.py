"""Settings of OpenLineage's client: its variables, and the file that `OPENLINEAGE_CONFIG` names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connectors.api.masking import is_secret_name, passwords_in

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.client import Event

CONFIG: Final = "OPENLINEAGE_CONFIG"
PREFIX: Final = "OPENLINEAGE__"
_ALSO_SECRET: Final = ("header", "endpoint")
"""Words in the names of settings whose values may contain a key."""


def new_client(config: str | None) -> OpenLineageClient:
    """Return a client that reads no configuration file except `config`. Raises any error of its settings."""
    from openlineage.client import OpenLineageClient

    class Client(OpenLineageClient):
        """The library prefers `openlineage.yml` in the current folder to all variables, and sends its Git remote."""

        @staticmethod
        def _find_yaml_config_path() -> str | None:
            return config

        def add_source_code_location_facet(self, event: Event) -> Event:
            return event

    return Client()


def secrets_of(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the secrets of the variables and of the configuration file, as written and without blanks around them.

    Raises:
        OSError, ValueError, yaml.YAMLError: the file cannot be read. The text of a YAMLError quotes it.
    """
    found: set[str] = set()
    for name, text in environ.items():
        if name.startswith(PREFIX):
            found.update(_in_variable(name.rpartition("__")[2], text))
        elif name.startswith("OPENLINEAGE_"):
            found.update(_in_setting(name, text))
    if path := environ.get(CONFIG):
        import yaml  # type: ignore[import-untyped]

        found.update(_in_setting("", yaml.safe_load(Path(path).read_text(encoding="utf-8"))))
    return frozenset(found | {each.strip() for each in found})


def _in_variable(key: str, text: str) -> Iterator[str]:
    """Yield the secrets of `OPENLINEAGE__…`, whose value may be JSON. The library logs a value that it cannot parse."""
    yield from _in_setting(key, text)
    try:
        yield from _in_setting(key, json.loads(text))
    except ValueError:
        if any(each in text for each in "{}[]"):
            yield text


def _in_setting(key: str, value: Any) -> Iterator[str]:
    is_secret = is_secret_name(key) or any(word in key.lower() for word in _ALSO_SECRET)
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _in_setting(key if is_secret else str(name), each)
    elif isinstance(value, list):
        for each in value:
            yield from _in_setting(key, each)
    elif value is None or isinstance(value, bool):
        return
    elif is_secret:
        yield str(value)
    else:
        yield from passwords_in(str(value))
        yield str(value).partition("?")[2]
