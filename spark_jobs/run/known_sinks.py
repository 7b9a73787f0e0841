"""H32: what starts have learned of sinks with a log, kept at the checkpoint location, so that a start can go on while
a sink is away.

A start that has claimed a sink and opened it keeps which columns the target has, and into how many slots the sink may
divide a checkpoint. A start without the sink writes by that. Invariant: rows are written for as many slots as the sink
has. The number may change at the first permit of a start, so

- what is kept names the number that the sink has and the one that the start sets: with two of them a start has to wait;
- a start keeps it before its first permit, and then checks that head is still its own (`Driver.check_owned`): a later
  start, which reads it after its claim, finds it, or this one is fenced;
- a rescale, whose checkpoint without rows has a permit of its own, does the same before it claims;
- the newest epoch counts, and not the last writer: a start that was held up keeps nothing over a newer one's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from connectors.api.contracts import Finding, Sink, Unopened
from connectors.known import must_wait
from eos.errors import HeadError, HeadFormatError
from twophase.codec import check_readable
from twophase.driver import Driver
from twophase.head_value import HeadValue
from twophase.ids import sink_key
from wal.private import replace_durably

_log: Final = logging.getLogger("eos.sink")

FORMAT: Final = 1
_FOLDER: Final = "sinks"
_MARK: Final = ".json"


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
    """The documents at one checkpoint location."""

    location: Path

    def incarnations(self, sinks: Iterable[Unopened]) -> Mapping[str, frozenset[str]]:
        """By sink, the incarnations in which it can be written to while it is away: see startup.start.

        Raises HeadError. A document that cannot be read is reported in the log: its sink has to be there.
        """
        names = [folder.name for folder in self._paths(self.location / _FOLDER, "*") if folder.is_dir()]
        return {
            sink.name: frozenset(incarnation for incarnation in names if self._is_enough(incarnation, sink.name))
            for sink in sinks
        }

    def _is_enough(self, incarnation: str, sink: str) -> bool:
        try:
            known = self.read(incarnation, sink)
        except HeadFormatError as error:
            _log.warning("sink %s has to be there at the start: %s", sink, error.message)
            return False
        return known is not None and known.known is not None

    def read(self, incarnation: str, sink: str) -> KnownSink | None:
        """Return what the newest epoch has kept; None: nothing. Raises HeadError."""
        newest = max(self._of(incarnation, sink), default=None)
        if newest is None:
            return None
        try:
            return KnownSink.decoded(newest[1].read_bytes(), str(newest[1]))
        except OSError as error:
            raise HeadError(f"{newest[1]} cannot be read: {error.strerror}") from error

    def keep(self, incarnation: str, sink: str, known: KnownSink) -> None:
        """Keep it, unless a newer epoch has kept something; older documents are deleted. Raises HeadError."""
        path = self.location / _FOLDER / incarnation / f"{sink_key(sink)}.{known.epoch:08x}{_MARK}"
        try:
            replace_durably(path, known.encoded())
            for epoch, older in [*self._of(incarnation, sink)]:
                if epoch < known.epoch:
                    older.unlink(missing_ok=True)
        except OSError as error:
            raise HeadError(f"{path} cannot be written: {error.strerror}") from error

    def announce_slots(self, head: HeadValue, sink: str, slots: frozenset[int]) -> None:
        """Before a command that follows this head gives the sink one of these numbers of slots: from here on it may
        have them. A start without the sink waits then, until one with the sink has found out. Raises HeadError."""
        with suppress(HeadFormatError):  # damaged: each start needs the sink already
            known = self.read(head.incarnation, sink)
            if known is not None:
                self.keep(head.incarnation, sink, KnownSink(head.epoch + 1, known.slots | slots, known.known))

    def _of(self, incarnation: str, sink: str) -> Iterator[tuple[int, Path]]:
        for path in self._paths(self.location / _FOLDER / incarnation, f"{sink_key(sink)}.*{_MARK}"):
            with suppress(ValueError):
                yield int(path.name.split(".")[-2], 16), path

    def _paths(self, folder: Path, pattern: str) -> Sequence[Path]:
        try:
            return list(folder.glob(pattern))
        except OSError as error:
            raise HeadError(f"{folder} cannot be read: {error.strerror}") from error

    def finding(self, incarnation: str, sink: str) -> Finding:
        """Whether a start could go on without this sink, for `eos doctor`."""
        check = "start while it is away"
        try:
            known = self.read(incarnation, sink)
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


def openings(driver: Driver, sinks: Iterable[Sink], location: Path) -> list[Opening]:
    """The sinks of a driver that has started, to be opened."""
    return [Opening(sink, driver, KnownSinks(location)) for sink in sinks]
