"""What a slot of a Kafka sink makes of the marker that it finds, with a producer that is only played (H10)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.kafka.settings import Connection
from connectors.kafka.sink.ledger import KafkaLedger, _digest, _Slot
from connectors.kafka.sink.markers import Claim, Marker
from connectors.kafka.sink.place import Place
from connectors.log.ledger import Share
from connectors.owner import Owner
from eos.errors import IdentityError, SinkUnavailableError
from tests.twophase_values import INCARNATION, committable, scope
from twophase.values import CommitOutcome
from wal.local import LocalStorage

NUMBER = 3
GROUP = (committable(scope(NUMBER), 0), committable(scope(NUMBER), 1))


@dataclass
class _Producer:
    calls: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.calls.append("begin")

    def commit(self, _key: str, _partition: int, record: dict[str, object]) -> None:
        self.calls.append(f"commit {record['applied']}")

    def close(self) -> None:
        self.calls.append("close")


class _Played:
    """A slot whose marker is what Kafka has, whenever it is opened."""

    def __init__(self, marker: Marker | None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.producer = _Producer()
        slot = _Slot(cast(Any, self.producer), "key")
        slot.marker = marker
        monkeypatch.setattr(KafkaLedger, "_slot", lambda *_: slot)
        self.ledger = KafkaLedger("topic", Place(Connection("k:1", "g")), 1, "orders")
        self.storage = LocalStorage(folder)

    def apply(self, known: int | None = None) -> list[CommitOutcome]:
        return list(self.ledger.apply(Share(INCARNATION, 1, NUMBER, 0, GROUP, known=known), self.storage))


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        (None, "knows of no checkpoint and is asked to apply checkpoint 3"),  # deleted, or it has expired
        (Marker(NUMBER - 2), "stands at checkpoint 1 and is asked to apply checkpoint 3"),
    ],
)
def test_h10_a_marker_that_is_gone_is_not_taken_for_nothing_applied(
    marker: Marker | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = _Played(marker, tmp_path, monkeypatch)
    with pytest.raises(IdentityError, match=said):
        played.apply()
    assert played.producer.calls == []


def test_a_checkpoint_is_applied_where_the_marker_is_at_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = _Played(Marker(NUMBER - 1), tmp_path, monkeypatch)
    assert played.apply() == [CommitOutcome.COMMITTED] * 2
    assert played.producer.calls == ["begin", "commit 3"]


def test_h34_a_marker_moves_over_at_least_once_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka went back to before the slot caught up with what no sink counts; less than it had counted is a gap."""
    played = _Played(Marker(NUMBER - 2), tmp_path, monkeypatch)
    assert played.apply(known=NUMBER - 2) == [CommitOutcome.COMMITTED] * 2
    assert played.producer.calls == ["begin", "commit 3"]
    behind = _Played(Marker(NUMBER - 3), tmp_path, monkeypatch)
    with pytest.raises(IdentityError, match="stands at checkpoint 0 and is asked to apply checkpoint 3"):
        behind.apply(known=NUMBER - 2)
    assert behind.producer.calls == []


def test_what_is_applied_is_applied_once_and_only_with_the_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = _Played(Marker(NUMBER, of=_digest(GROUP)), tmp_path, monkeypatch)
    assert applied.apply() == [CommitOutcome.ALREADY_COMMITTED] * 2
    other = _Played(Marker(NUMBER, of=_digest(GROUP[:1])), tmp_path, monkeypatch)
    assert other.apply() == [CommitOutcome.LOST] * 2
    assert applied.producer.calls == other.producer.calls == []


def test_h26_markers_are_read_anew_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was restored from a copy refuses the producer; what was read of its topic is of another history."""
    played = _Played(Marker(NUMBER - 1), tmp_path, monkeypatch)
    markers = played.ledger._markers
    markers._read["eos-markers/1"], markers._values[1, b"key"] = 7, b"{}"

    def refused(_key: str, _partition: int, _record: dict[str, object]) -> None:
        raise SinkUnavailableError("out of order")

    monkeypatch.setattr(played.producer, "commit", refused)
    with pytest.raises(SinkUnavailableError, match="out of order"):
        played.apply()
    assert (markers._read, markers._values) == ({}, {})


@pytest.mark.parametrize(("stale", "begun"), [(NUMBER - 1, []), (NUMBER - 2, [(1, NUMBER - 1)])])
def test_a_slot_that_is_in_use_again_keeps_what_it_says_of_the_checkpoint_before(
    stale: int, begun: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start may commit that once more, and asks with what it was applied."""
    ledger = KafkaLedger("topic", Place(Connection("k:1", "g")), 2, "orders")
    owner, found = Owner(INCARNATION, 1), list[tuple[int, int]]()
    changed: list[Claim] = []
    monkeypatch.setattr(ledger, "_owned", lambda _: Claim(owner, 1))
    monkeypatch.setattr(ledger, "_applied", lambda _, slots: {0: NUMBER - 1, **({1: stale} if slots > 1 else {})})
    monkeypatch.setattr(ledger, "_begin", lambda _, slot, marker: found.append((slot, marker.applied)))
    monkeypatch.setattr(ledger, "_claiming", lambda: nullcontext((changed.append, Claim(owner, 1))))
    ledger.share_out(scope(NUMBER))
    assert (found, changed) == (begun, [Claim(owner, 2)])
