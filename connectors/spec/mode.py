"""What `checkpoint.mode: at-least-once` cannot be had with."""

from __future__ import annotations

from typing import Final

from connectors.spec.document import Document, Items, Section

_NO_UPSERT: Final = (
    "'upsert' keeps the newest row of a key, which at-least-once cannot: a task that still runs after its checkpoint "
    "was rewritten would put an older row over a newer one. With exactly-once a replay changes nothing"
)


def check_mode(document: Document) -> None:
    """Report sinks that cannot be written to at-least-once."""
    checkpoint, sinks = document.root.get("checkpoint"), document.root.get("sinks")
    if not isinstance(checkpoint, Section) or checkpoint.get("mode") != "at-least-once":
        return
    for index, sink in enumerate(sinks if isinstance(sinks, Items) else ()):
        if isinstance(sink, Section) and sink.get("commit") == "upsert":
            ways = ("checkpoint.mode: exactly-once", "a pipeline of its own for this sink", "a commit without a key")
            document.report(("sinks", index, "commit"), _NO_UPSERT, ways)
