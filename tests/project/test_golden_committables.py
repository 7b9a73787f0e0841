"""What a writer of each kind acknowledges with, as an earlier version wrote it into a record, is still understood.

A line of `golden/committables.jsonl` for each kind; what each sink's committer asks of it is asked here.
"""

from __future__ import annotations

import pytest

from connectors.log.segments import committable, segment_of, slots_of
from connectors.sql import tables
from tests.twophase.test_codec import GOLDEN
from tests.twophase_values import scope
from twophase.codec import decode_committable, encode_committable
from twophase.ids import TransactionId, sink_key
from twophase.values import INSTEAD_OF, Committable, origin
from wal.segment import SegmentRef

_ID = TransactionId(scope(7, epoch=2), sink_key("warehouse"), 3, 42)
_LOST = TransactionId(scope(7, epoch=1), sink_key("warehouse"), 3, 11)
_REF = SegmentRef(f"{str(_ID).replace('/', '.')}.segment", 1000, 81234, "ab" * 32)

KINDS: dict[str, Committable] = {
    "two-phase": Committable(_ID, rows=1000, digest=2**64 - 1),
    "two-phase, no rows": Committable(_ID, rows=0, data={tables.EMPTY: "1"}),
    "two-phase, repaired": Committable(_ID, rows=1000, data={INSTEAD_OF: str(_LOST)}),
    "log": committable(_ID, 4, 1000, _REF),
    "log, rows merged by key": committable(_ID, 4, 1200, _REF),
    "log, no rows": committable(_ID, 4, 0, None),
    "at-least-once": Committable(_ID, rows=1000),
}
LINES = dict(zip(KINDS, (GOLDEN / "committables.jsonl").read_bytes().splitlines(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_written_to_the_letter_and_read_for_ever(kind: str) -> None:
    assert encode_committable(KINDS[kind]) == LINES[kind]
    assert decode_committable(LINES[kind]) == KINDS[kind]


def test_its_sink_understands_it() -> None:
    read = {kind: decode_committable(line) for kind, line in LINES.items()}
    assert [kind for kind, each in read.items() if tables.EMPTY in each.data] == ["two-phase, no rows"]
    assert {kind: origin(each) for kind, each in read.items() if origin(each) != _ID} == {"two-phase, repaired": _LOST}
    assert [segment_of(read[kind]) for kind in ("log", "log, rows merged by key", "log, no rows")] == [_REF, _REF, None]
    assert slots_of([each for kind, each in read.items() if kind.startswith("log")]) == 4
