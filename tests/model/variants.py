"""The model with one rule broken at a time, and the bounds within which that is seen.

The names are those of the simulation's mutants, which break the same rule in the code: the histories that the model
finds are then followed there.
"""

from __future__ import annotations

from tests.model.state import Bounds

NOT_OF_THE_COORDINATOR = {
    # threads of `twophase.backlog` keep the order, and the simulation has none
    "checkpoints are committed out of order (R7)": (
        "test_checkpoints_go_on_until_so_many_wait_and_are_committed_in_order"
    ),
    # of the sink: `connectors.testing` asks every sink for it; each simulated checkpoint has rows, whose witnesses tell
    "a count moves from wherever it is": "test_h26_a_count_moves_by_one_checkpoint",
    # of the sink: it holds the claim and compares the count in the transaction that catches up
    "catching up compares neither the claim nor the count": (
        "test_h34_catching_up_does_not_hide_that_a_sink_went_back"
    ),
    # connections of a database, which have marks; the simulation has none
    "a claim ends only the appliers of its own slots": "test_h28_a_take_over_ends_a_frozen_applier_of_any_slot",
    "an applier ends no frozen claim": "test_h28_a_start_ends_a_frozen_claim",
    # a lock of the command (`spark_jobs.observe.run_lock.alone`); the simulation begins one after the other, as it does
    # head has to go back by four swaps while drivers take turns three times: more worlds than an exploration covers
    "an epoch that another driver has claimed as well goes on (H29)": (
        "test_h29_transactions_of_ones_own_epoch_at_its_start_are_another_drivers"
    ),
    # of what tasks decode with: the simulation has no records
    "schemas are kept by a driver alone (H35)": "test_h35_head_and_records_keep_the_schemas_of_their_records",
    "a decision does not compare schemas (H35)": (
        "test_h35_records_that_were_decoded_with_another_schema_are_not_decided"
    ),
    "a decision does not compare the schemas of two tasks (H35)": (
        "test_h35_records_that_were_decoded_with_another_schema_are_not_decided"
    ),
    "a repair does not compare schemas (H35)": "test_h35_what_is_decoded_with_another_schema_is_not_written_again",
    # of the thread that a sink joins by, and of what a start keeps of a sink: the simulation joins between checkpoints
    "a joining sink is not compared (H32)": (
        "test_a_sink_that_went_back_in_time_is_not_claimed_by_the_driver_that_it_would_join"
    ),
    "a start without a sink takes any number of slots (H32)": (
        "test_a_start_waits_for_a_sink_that_may_have_another_number_of_slots"
    ),
    "the slots that are kept are those of the start alone (H32)": (
        "test_the_number_that_the_sink_has_is_kept_beside_that_of_the_start"
    ),
    "an older start keeps its slots over those of a newer one (H32)": "test_what_the_newest_epoch_has_kept_counts",
    "who has kept its slots does not look at head again (H32)": (
        "test_who_keeps_slots_is_fenced_by_a_start_that_may_not_know_of_them"
    ),
    "a sink that joins gets its slots as at a start (H32)": (
        "test_a_sink_that_keeps_its_slots_is_asked_for_no_permit_by_the_epoch_that_it_joins"
    ),
    "what waited before the start is not counted (H32)": "test_what_waited_before_a_start_counts_for_the_bound",
    "a joining sink is given the newest checkpoints first (H32)": (
        "test_a_start_goes_on_without_a_sink_which_joins_and_gets_what_waits_in_order"
    ),
    "a join rolls back what its own epoch writes (H32)": (
        "test_what_the_running_epoch_prepares_stays_when_a_sink_joins_and_older_leftovers_do_not"
    ),
    "a pipeline begins without a sink (H32)": "test_a_start_needs_a_sink_that_could_not_join",
    "two rescales at once": "test_it_is_refused_while_the_pipeline_runs_or_another_one_is_under_way",
}
"""Variants, of all models, that no mutant of the coordinator can be, each with the test of what keeps that rule."""

_ONE = Bounds(drivers=2, turns=0)
_TWO = Bounds(turns=2)
_LONG = Bounds(checkpoints=2, turns=2)
_REPEATS = Bounds(drivers=1, repeats=1)
_FAILING = Bounds(drivers=1, tries=2, repeats=1, failures=1)
_ABORTED = Bounds(drivers=1, aborters=1, unanswered=1, turns=2)
_SWAPS = Bounds(drivers=1, unanswered=2)
_BEHIND = Bounds(drivers=1, checkpoints=3, behind=1, turns=4)
_MORE_BEHIND = Bounds(drivers=1, checkpoints=3, behind=2, turns=4)

HOLDS = {
    "two drivers, two checkpoints": (Bounds(turns=2, checkpoints=2), 8_000),
    "two sinks, two tasks": (Bounds(sinks=2, tasks=2), 3_000),
    "three drivers": (Bounds(drivers=3, turns=1), 2_000),
    "a task runs twice": (Bounds(repeats=1), 4_000),
    "jobs that fail, and a further try": (Bounds(drivers=1, checkpoints=2, tries=2, repeats=1, failures=1), 500),
    "swaps without an answer": (Bounds(unanswered=2), 5_000),
    "aborted by another process": (_ABORTED, 500),
    "commits one checkpoint behind": (_BEHIND, 500),
    "commits two checkpoints behind": (_MORE_BEHIND, 500),
    "commits behind, among two drivers": (Bounds(checkpoints=2, behind=1, turns=2), 500),
    "commits behind, swaps without an answer": (Bounds(drivers=1, checkpoints=2, behind=1, unanswered=1, turns=3), 500),
}
"""Name: bounds, and how many worlds there must be at least."""

DEEP = {
    "two drivers, two sinks, two tasks, two checkpoints": Bounds(sinks=2, tasks=2, checkpoints=2, turns=2),
    "three drivers, three turns": Bounds(drivers=3, turns=3),
    "a task runs twice among drivers that take turns": Bounds(repeats=1, turns=3, failures=1, tries=2),
    "swaps without an answer, two checkpoints": Bounds(checkpoints=2, unanswered=2, turns=2),
    "aborted by another process among drivers": Bounds(aborters=1, unanswered=1, turns=2),
}
"""For some minutes, by `python -m tests.simulation`."""

VARIANTS = {
    "swap without compare": _TWO,
    "commit before decide": _ONE,
    "abort before commit": _ONE,
    "abort any epoch": _TWO,
    "no epoch in the id": _TWO,
    "no permit": _TWO,
    "permit without claim": _TWO,
    "the claim leaves older permits (H7)": _TWO,
    "the sinks are not claimed (R3)": _ONE,
    "leftovers stay (R3)": _ONE,
    "a retry rolls its sibling back (H1)": _REPEATS,
    "the newest attempt is committed, not the accepted one (H1)": _REPEATS,
    "committed is said before the close (R9)": _REPEATS,
    "listed before the permits are gone (R9)": _REPEATS,
    "nothing is closed (R9)": _REPEATS,
    "an aborted try is not closed (R8)": _FAILING,
    "an abort returns to Spark (H13)": _FAILING,
    "abort without a swap of its own (H2)": _ABORTED,
    "a decision of an aborted try lands by merge and retry (H2)": _ABORTED,
    "a fenced driver decides on the head that it finds (H5)": _TWO,
    "lost is said without a look at head (H12)": _LONG,
    "an unanswered swap is taken for refused (H20)": _SWAPS,
    "an unanswered swap is taken for landed": _SWAPS,
}

BEHIND = {
    "checkpoints are committed out of order (R7)": _MORE_BEHIND,
    "a close takes in what is newer (R9)": _BEHIND,
    "a start commits only the newest decision (R3)": _MORE_BEHIND,
    "committed is said before the close (R9)": Bounds(drivers=1, checkpoints=2, behind=1, repeats=1, turns=3),
}
"""Of drivers that go on while their threads commit."""
