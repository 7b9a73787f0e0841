"""Readings of dead letters, and the replay of their records. Used by the command line and the page."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from connectors.dead_letters import LAST_ID, DeadLetter
from connectors.spec import SinkEntry, SourceEntry, Spec
from eos.errors import SpecError
from spark_jobs.observe.head_reader import read_head


def read(spec: Spec) -> Sequence[DeadLetter]:
    """Return all visible dead letters. Raises SpecError without a `dead_letter`, and what the service raises."""
    return _entry(spec).read_dead_letters()


def read_newest(spec: Spec, most: int) -> Sequence[DeadLetter]:
    """Return the newest dead letters, newest first. Raises as `read`, and HeadError."""
    entry, head = _entry(spec), read_head(spec)
    return entry.newest_dead_letters(most, head.completed + 1 if head is not None else LAST_ID)


def _entry(spec: Spec) -> SinkEntry:
    if spec.dead_letter is None:
        raise SpecError("the spec has no dead_letter", remedy="see docs/reference/sinks.md, dead letters")
    return spec.dead_letter


def distinct(letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """Return one dead letter for each record of a source. Rows without a known record are left out.

    The source counts: two sources may read topics of one name in two clusters. In one cluster, a replay's markers
    prevent a second send.
    """
    return list({each.record: each for each in letters if each.record is not None}.values())


def resend(spec: Spec, chosen: Sequence[DeadLetter], to: str | None = None) -> Iterator[Sequence[DeadLetter]]:
    """Resend topic by topic: a transaction for each topic, and for each source's cluster.

    Raises SpecError before anything is sent if a dead letter may not be sent to its topic. Other programs may write
    to the topic of the dead letters, so a letter's own topic is not trusted.
    """
    sources = {entry.name: entry for entry in spec.sources}
    reserved = {topic for entry in (*spec.sources, *spec.outputs) for topic in entry.reserved_topics}
    groups: dict[tuple[str, str], list[DeadLetter]] = {}
    for each in chosen:
        groups.setdefault((str(each.source), to or str(each.topic)), []).append(each)
    for name, topic in groups:
        if topic in reserved:
            message = f"the topic {topic!r} has the markers of pipelines: no record is sent there"
            raise SpecError(message, remedy="give another topic with --to, or choose other dead letters")
        if not _source(sources, name).reads(topic) and to is None:
            message = f"there are dead letters of the topic {topic!r}, which the source {name} does not read"
            raise SpecError(
                message, remedy="check who wrote them; select others with --offset, or give a topic with --to"
            )
    for (name, topic), letters in groups.items():
        yield _source(sources, name).resend(spec.pipeline, topic, letters)


def _source(sources: dict[str, SourceEntry], name: str) -> SourceEntry:
    if name not in sources:
        message = f"there are dead letters of a source {name!r}, which the spec does not have"
        raise SpecError(message, remedy="choose others with --source, or put the source back")
    return sources[name]


def id_of(letter: DeadLetter) -> str:
    """Return a name of the dead letter that is the same at each reading."""
    parts = (letter.source, letter.sink, letter.place, letter.digest, letter.checkpoint_id, letter.error)
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()[:20]
