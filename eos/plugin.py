"""Names for a connector in a distribution of its own: its spec entry, and the small contracts of a store.

docs/plugins.md has a complete example of each. Importing this module loads no client and no Spark.
"""

from __future__ import annotations

from connectors.api.entry import SinkEntry, SourceEntry
from connectors.api.fields import LocalPath, Title
from connectors.api.guarantee import Guarantee, PipelineContext, at_least_once, log_needs, with_each_checkpoint
from connectors.api.plugins import API_VERSION
from connectors.log.place import LogPlace
from connectors.stores.contracts import PreparingStore, TokenStore
from connectors.stores.preparing import PreparingSink
from connectors.stores.sink import StoreSink

__all__ = [
    "API_VERSION",
    "Guarantee",
    "LocalPath",
    "LogPlace",
    "PipelineContext",
    "PreparingSink",
    "PreparingStore",
    "SinkEntry",
    "SourceEntry",
    "StoreSink",
    "Title",
    "TokenStore",
    "at_least_once",
    "log_needs",
    "with_each_checkpoint",
]
