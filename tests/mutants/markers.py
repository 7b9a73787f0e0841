"""The markers of a Kafka sink (H10)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a marker that is gone is taken for nothing applied",
        rule="H10",
        path="connectors/kafka/sink/ledger.py",
        before="""        marker, digest = slot.marker, _digest(share.committables)
""",
        after="""        marker, digest = slot.marker or Marker(share.checkpoint_id - 1), _digest(share.committables)
""",
        caught_by=(
            "tests/connectors/kafka/test_ledger.py::test_h10_a_marker_that_is_gone_is_not_taken_for_nothing_applied",
        ),
    ),
    Mutant(
        name="a slot of a topic leaves out a checkpoint",
        rule="R7",
        path="connectors/kafka/sink/ledger.py",
        before="""        if marker is None or not share.is_next(marker.applied):
""",
        after="""        if marker is None or marker.applied >= share.checkpoint_id:
""",
        caught_by=(
            "tests/connectors/kafka/test_ledger.py::test_h10_a_marker_that_is_gone_is_not_taken_for_nothing_applied",
        ),
    ),
    Mutant(
        name="messages of another decision are taken for the decided ones",
        rule="R7",
        path="connectors/kafka/sink/ledger.py",
        before="""            other = marker.applied == share.checkpoint_id and marker.of != digest
""",
        after="""            other = marker.applied == share.checkpoint_id and not marker.of
""",
        caught_by=(
            "tests/connectors/kafka/test_ledger.py::test_what_is_applied_is_applied_once_and_only_with_the_decision",
        ),
    ),
    Mutant(
        name="markers of a broker that went back in time are remembered",
        rule="H26",
        path="connectors/kafka/sink/ledger.py",
        before="""        self._markers.forget()
""",
        after="",
        caught_by=("tests/connectors/kafka/test_ledger.py::test_h26_markers_are_read_anew_after_an_error",),
    ),
)
