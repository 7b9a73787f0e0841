"""Settings that are incompatible with `checkpoint.mode: at-least-once`."""

from __future__ import annotations

from connectors.api import plugins
from connectors.api.document import Document, Items, Section
from connectors.api.entry import SinkEntry


def check_mode(document: Document) -> None:
    """Report sinks that cannot be written to at-least-once."""
    checkpoint, sinks = document.root.get("checkpoint"), document.root.get("sinks")
    if not isinstance(checkpoint, Section) or checkpoint.get("mode") != "at-least-once":
        return
    for index, sink in enumerate(sinks if isinstance(sinks, Items) else ()):
        reason = _reason(sink) if isinstance(sink, Section) else ""
        if reason:
            ways = ("checkpoint.mode: exactly-once", "a pipeline of its own for this sink", "a commit without a key")
            document.report(("sinks", index, "commit"), reason, ways)


def _reason(sink: Section) -> str:
    """Return why the entry cannot be written to at-least-once; empty if it can, or if its connector is not known."""
    try:
        model = plugins.load(plugins.SINKS, str(sink.get("connector")), SinkEntry)
    except plugins.PluginError:
        return ""
    return model.exactly_once_only.get(str(sink.get("commit")), "")
