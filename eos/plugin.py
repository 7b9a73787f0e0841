"""Names for a connector in a separate distribution: its spec entry, and the small contracts of stores and sources.

docs/tutorial/plugins.md has a complete example of each. A name is imported when it is first used, so the module of an
entry loads neither a client nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eos._imports import importer

if TYPE_CHECKING:
    from connectors.api.database import Database, DatabaseUse
    from connectors.api.entry import SinkEntry, SourceEntry, SplitSourceEntry
    from connectors.api.fields import LocalPath, NonEmpty, Title
    from connectors.api.format import FormatEntry, Recognized
    from connectors.api.guarantee import Guarantee, PipelineContext, at_least_once, log_needs, with_each_checkpoint
    from connectors.api.model import wrong
    from connectors.api.plugins import API_VERSION
    from connectors.api.secret import Secrets, UnresolvedError
    from connectors.api.template import Template
    from connectors.api.tls import Protection
    from connectors.formats.ddl import parse_ddl
    from connectors.log.place import LogPlace
    from connectors.sources.split_source import SplitSource
    from connectors.stores.contracts import PreparingStore, TokenStore
    from connectors.stores.preparing import PreparingSink
    from connectors.stores.sink import StoreSink
    from twophase.positions import Position

__all__ = [
    "API_VERSION",
    "Database",
    "DatabaseUse",
    "FormatEntry",
    "Guarantee",
    "LocalPath",
    "LogPlace",
    "NonEmpty",
    "PipelineContext",
    "Position",
    "PreparingSink",
    "PreparingStore",
    "Protection",
    "Recognized",
    "Secrets",
    "SinkEntry",
    "SourceEntry",
    "SplitSource",
    "SplitSourceEntry",
    "StoreSink",
    "Template",
    "Title",
    "TokenStore",
    "UnresolvedError",
    "at_least_once",
    "log_needs",
    "parse_ddl",
    "with_each_checkpoint",
    "wrong",
]

_NAMES: Final = {
    "connectors.api.database": (
        "Database",
        "DatabaseUse",
    ),
    "connectors.api.entry": (
        "SinkEntry",
        "SourceEntry",
        "SplitSourceEntry",
    ),
    "connectors.api.fields": (
        "LocalPath",
        "NonEmpty",
        "Title",
    ),
    "connectors.api.format": ("FormatEntry", "Recognized"),
    "connectors.api.guarantee": (
        "Guarantee",
        "PipelineContext",
        "at_least_once",
        "log_needs",
        "with_each_checkpoint",
    ),
    "connectors.api.model": ("wrong",),
    "connectors.api.plugins": ("API_VERSION",),
    "connectors.api.secret": (
        "Secrets",
        "UnresolvedError",
    ),
    "connectors.api.template": ("Template",),
    "connectors.api.tls": ("Protection",),
    "connectors.formats.ddl": ("parse_ddl",),
    "connectors.log.place": ("LogPlace",),
    "connectors.sources.split_source": ("SplitSource",),
    "connectors.stores.contracts": (
        "PreparingStore",
        "TokenStore",
    ),
    "connectors.stores.preparing": ("PreparingSink",),
    "connectors.stores.sink": ("StoreSink",),
    "twophase.positions": ("Position",),
}
"""Public names by the module that defines them. A test compares them with the imports for type checkers above."""


if not TYPE_CHECKING:  # a type checker would take every unknown name for an object
    __getattr__ = importer(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted(__all__)
