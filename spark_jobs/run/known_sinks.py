"""H32: what starts have learned of sinks with a log, kept at the checkpoint location, so that a start can go on while
a sink is away.

A start that has claimed a sink and opened it keeps which columns the target has, and into how many slots the sink may
divide a checkpoint. A start without the sink writes by that. Invariant: rows are written for as many slots as the sink
has. The number may change at the first permit of a start, so

- what is kept names the number that the sink has and the one that the start sets: with two of them a start has to wait;
- a start keeps it before its first permit, and then checks that head is still its own (`Driver.check_owned`): a later
  start, which reads it after its claim, finds it, or this one is fenced;
- a rescale, whose checkpoint without rows has a permit of its own, does the same before it claims;
- the newest epoch counts, and not the last writer: each epoch writes a document with its number in the name, so a
  start that was held up, or a request that lands late, replaces nothing of a newer one.

The documents are beside head: in an object store or HDFS every machine finds them. Earlier versions kept them in the
scratch folder of one machine; a start takes them over if no driver has claimed head since (`take_over`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from connectors.api.contracts import Finding, Sink, Unopened
from connectors.known import must_wait
from connectors.registry import open_documents
from connectors.spec import Spec
from eos.errors import HeadError, HeadFormatError
from twophase.codec import check_readable
from twophase.documents import Documents, LocalDocuments
from twophase.driver import Driver
from twophase.head_value import HeadValue
from twophase.ids import sink_key

_log: Final = logging.getLogger("eos.sink")

FORMAT: Final = 1
_FOLDER: Final = "sinks"
_MARK: Final = ".json"
_READS: Final = 10


@dataclass(frozen=True, slots=True)
class KnownSink:
    """What the newest start that had a sink has kept of it."""

    epoch: int
    slots: frozenset[int]  # that the sink may have
    known: str | None  # see Sink.known; None: it cannot be written to while it is away

    def encoded(self) -> bytes:
        """As it is stored."""
        document = {"format": FORMAT, "epoch": self.epoch, "slots": sorted(self.slots), "known": self.known}
        return json.dumps(document, indent=1, sort_keys=True).encode()

    @classmethod
    def decoded(cls, content: bytes, where: str) -> KnownSink:
        """The inverse. Raises HeadFormatError for a newer format, and for what is not a document of this kind."""
        try:
            document = json.loads(content)
            check_readable(document, where, FORMAT)
            epoch, known = document["epoch"], document["known"]
            slots = frozenset(document["slots"])
            if type(epoch) is int and isinstance(known, str | None) and all(type(each) is int for each in slots):
                return cls(epoch, slots, known)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        message = f"{where} is damaged: it does not say how a sink can be written to while it is away"
        raise HeadFormatError(message, remedy="delete the file; a start with all sinks writes it again")


@dataclass(frozen=True, slots=True)
class KnownSinks:
    """The documents of one pipeline. Each method may block on the disk or the network."""

    documents: Documents
    earlier: Documents | None = None
    """Where earlier versions kept them, on this machine; None: in the same place."""

    @classmethod
    def of(cls, spec: Spec) -> KnownSinks:
        """The documents at the checkpoint location of this pipeline. Opens nothing. Raises HeadError."""
        earlier = LocalDocuments(spec.checkpoint.folder) if spec.checkpoint.is_scratch else None
        return cls(open_documents(spec), earlier)

    def incarnations(self, head: HeadValue | None, sinks: Iterable[Unopened]) -> Mapping[str, frozenset[str]]:
        """By sink, the incarnations in which it can be written to while it is away: see startup.start.

        Called with head as it was before the claim, which names the only incarnation that counts. Raises
        HeadError. A document that cannot be read is reported in the log: its sink has to be there.
        """
        if head is None:
            return {}
        enough = frozenset({head.incarnation})
        return {sink.name: enough if self._is_enough(head, sink.name) else frozenset() for sink in sinks}

    def _is_enough(self, head: HeadValue, sink: str) -> bool:
        try:
            self.take_over(head, sink)
            known = self.read(head.incarnation, sink)
        except HeadFormatError as error:
            _log.warning("sink %s has to be there at the start: %s", sink, error.message)
            return False
        return known is not None and known.known is not None

    def take_over(self, head: HeadValue, sink: str) -> None:
        """Store the document that an earlier version has kept on this machine. Called with head of before the claim.

        Only where nothing is stored, and no driver has claimed head since: one on another machine may have given the
        sink other slots. Raises HeadError.
        """
        known = self._on_this_machine(head, sink)
        if known is not None:
            self.keep(head.incarnation, sink, known)

    def _on_this_machine(self, head: HeadValue, sink: str) -> KnownSink | None:
        if self.earlier is None or self._names(head.incarnation, sink):
            return None
        known = KnownSinks(self.earlier).read(head.incarnation, sink)
        return known if known is not None and known.epoch >= head.epoch else None

    def find(self, head: HeadValue, sink: str) -> KnownSink | None:
        """Return the same as a start that follows this head would read; None: nothing. Raises HeadError."""
        return self.read(head.incarnation, sink) or self._on_this_machine(head, sink)

    def read(self, incarnation: str, sink: str) -> KnownSink | None:
        """Return what the newest epoch has kept; None: nothing. Raises HeadError."""
        name = ""
        for _ in range(_READS):
            names = self._names(incarnation, sink)
            if not names:
                return None
            name = names[max(names)]
            content = self.documents.read(name)
            if content is not None:
                return KnownSink.decoded(content, self.documents.place(name))
            # deleted by a start that has kept a newer one
        message = f"{self.documents.place(name)} is listed, and cannot be found"
        raise HeadError(message, remedy="see that the store lists its objects as they are")

    def keep(self, incarnation: str, sink: str, known: KnownSink) -> None:
        """Keep it, unless a newer epoch has kept something; older documents are deleted. Raises HeadError."""
        name = f"{_FOLDER}/{incarnation}/{sink_key(sink)}.{known.epoch:08x}{_MARK}"
        self.documents.replace(name, known.encoded())
        for epoch, older in self._names(incarnation, sink).items():
            if epoch < known.epoch:
                self.documents.delete(older)

    def forget(self, incarnation: str) -> None:
        """Delete the documents of an incarnation that has ended. Raises HeadError."""
        folder = f"{_FOLDER}/{incarnation}"
        for name in self.documents.names(folder):
            self.documents.delete(f"{folder}/{name}")

    def announce_slots(self, head: HeadValue, sink: str, slots: frozenset[int]) -> None:
        """Before a command that follows this head gives the sink one of these numbers of slots: from here on it may
        have them. A start without the sink waits then, until one with the sink has found out. Raises HeadError."""
        with suppress(HeadFormatError):  # damaged: each start needs the sink already
            known = self.read(head.incarnation, sink)
            if known is not None:
                self.keep(head.incarnation, sink, KnownSink(head.epoch + 1, known.slots | slots, known.known))

    def _names(self, incarnation: str, sink: str) -> Mapping[int, str]:
        """By epoch."""
        folder, start = f"{_FOLDER}/{incarnation}", f"{sink_key(sink)}."
        found: dict[int, str] = {}
        for name in self.documents.names(folder):
            if name.startswith(start) and name.endswith(_MARK):
                with suppress(ValueError):
                    found[int(name.split(".")[-2], 16)] = f"{folder}/{name}"
        return found

    def finding(self, head: HeadValue, sink: str) -> Finding:
        """Whether a start could go on without this sink, for `eos doctor`."""
        check = "start while it is away"
        try:
            known = self.find(head, sink)
        except HeadError as error:
            return Finding(check, False, f"each start needs the sink: {error.message}", error.remedy, fatal=False)
        if known is None or known.known is None:
            why = "nothing is known of its target that would do"
            remedy = "docs/reference/sinks.md says which sinks can be away"
        elif len(known.slots) > 1:
            numbers = " or ".join(map(str, sorted(known.slots)))
            why, remedy = f"it may have {numbers} slots", "start the pipeline once more while the sink is there"
        else:
            return Finding(check, True, f"a start goes on without it, as epoch {known.epoch} has known it")
        return Finding(check, False, f"each start needs the sink: {why}", remedy, fatal=False)


@dataclass(frozen=True, slots=True)
class Opening:
    """A sink that is opened under one epoch: by its server, or while that is away, by what is kept of it."""

    sink: Sink
    driver: Driver  # started
    kept: KnownSinks

    @property
    def name(self) -> str:
        """In the spec."""
        return self.sink.name

    def open(self, schema: pa.Schema) -> Sink:
        """See Sink. Raises SinkUnavailableError where a sink is away, and the start cannot go on without it.

        Raises FencedError where a newer driver has started meanwhile: it may not know of this start's slots.
        """
        head, slots = self.driver.owned, self.driver.committers[self.name].slots
        if self.name in self.driver.absent:
            known = self.kept.read(head.incarnation, self.name)
            if known is None or known.known is None:
                raise must_wait(self.name, "no start has kept what it has learned of it")
            if known.slots != slots:
                now, wanted = (", ".join(map(str, sorted(each))) for each in (known.slots, slots))
                raise must_wait(self.name, f"the sink may have {now} slots, and the spec names {wanted}")
            return self.sink.open_cached(schema, known.known)
        opened = self.sink.open(schema)
        if slots:
            self.kept.keep(head.incarnation, self.name, KnownSink(head.epoch, slots, opened.cached_target))
            self.driver.check_owned()
        return opened


def openings(driver: Driver, sinks: Iterable[Sink], kept: KnownSinks) -> list[Opening]:
    """The sinks of a driver that has started, to be opened."""
    return [Opening(sink, driver, kept) for sink in sinks]
