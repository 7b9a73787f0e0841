"""Kafka as a sink: transactions, claims and markers, on a real broker."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_LEDGER: Final = "connectors/kafka/sink/ledger.py"
_MARKERS: Final = "connectors/kafka/sink/markers.py"
_PRODUCER: Final = "connectors/kafka/sink/producer.py"
_TARGET: Final = "connectors/kafka/sink/target.py"
_ON_KAFKA: Final = "integration_tests/test_kafka_messages.py"
_COMMITS: Final = "integration_tests/test_kafka_commit.py"
_COMPLIANCE: Final = "integration_tests/test_compliance.py"
_TOPICS: Final = "docs/reference/sinks.md, Topics"
_AT_LEAST_ONCE: Final = "docs/reference/sinks.md, At-least-once"

MUTANTS: Final = (
    Mutant(
        name="a Kafka commit without an answer is taken for done",
        rule="R10",
        path=_PRODUCER,
        before='        self._call("committing", lambda: self._handle.commit_transaction(self._place.transaction_timeout_s))\n',
        after="""        with suppress(KafkaException):
            self._handle.commit_transaction(self._place.transaction_timeout_s)
""",
        caught_by=(f"{_COMMITS}::test_a_commit_without_an_answer_is_looked_up",),
    ),
    Mutant(
        name="rows are doubled after a part of a share was committed",
        rule="R10",
        path=_LEDGER,
        before="            self._write(slot, marker, share, _batches(storage, share, marker.rows))\n",
        after="            self._write(slot, marker, share, _batches(storage, share, 0))\n",
        caught_by=(f"{_ON_KAFKA}::test_a_share_that_is_written_in_parts_goes_on_where_it_was",),
    ),
    Mutant(
        name="a part of a share is not counted in its transaction",
        rule="R10",
        path=_LEDGER,
        before="                slot.commit(replace(before, begun=digest, rows=rows))\n",
        after="                slot.commit(replace(before, begun=digest, rows=before.rows))\n",
        caught_by=(f"{_ON_KAFKA}::test_a_share_that_is_written_in_parts_goes_on_where_it_was",),
    ),
    Mutant(
        name="a share goes on behind a part of another decision",
        rule="R7",
        path=_LEDGER,
        before="        if marker.rows and marker.begun != digest:\n",
        after="        if marker.rows and not marker.begun:\n",
        caught_by=(f"{_ON_KAFKA}::test_a_share_of_which_a_part_is_written_is_not_written_with_other_rows",),
    ),
    Mutant(
        name="a repair writes a share again of which a part is visible",
        rule="R7",
        path="connectors/log/committer.py",
        before="""                    if entries.slots.get(slot) == checkpoint_id - 1:
                        self._check_not_begun(slot, entries)
""",
        after="",
        caught_by=(f"{_ON_KAFKA}::test_a_share_of_which_a_part_is_written_is_not_written_with_other_rows",),
    ),
    Mutant(
        name="an applied checkpoint is taken for applied with whatever is decided",
        rule="R10",
        path=_LEDGER,
        before="            other = marker.applied == share.checkpoint_id and marker.of != digest\n",
        after="            other = False\n",
        caught_by=(f"{_ON_KAFKA}::test_a_share_that_is_written_in_parts_goes_on_where_it_was",),
    ),
    Mutant(
        name="rows that the log lacks are taken for committed",
        rule="R7",
        path=_LEDGER,
        before="""            return [CommitOutcome.LOST] * len(share.committables)
        with""",
        after="""            return [CommitOutcome.COMMITTED] * len(share.committables)
        with""",
        caught_by=(f"{_COMPLIANCE}::TestKafkaLog::test_what_is_lost_is_written_again_once",),
    ),
    Mutant(
        name="another life claims a sink without a take-over",
        rule="R2",
        path=_LEDGER,
        before="            if found is not None and not take_over:\n",
        after="            if found is not None and take_over:\n",
        caught_by=(f"{_COMPLIANCE}::TestKafkaLog::test_another_life_is_refused_unless_it_takes_over",),
    ),
    Mutant(
        name="a sink from before the first claim is claimed",
        rule="H26",
        path=_LEDGER,
        before="            if found is None or found.owner.incarnation != owner.incarnation:\n",
        after="            if found is not None and found.owner.incarnation != owner.incarnation:\n",
        caught_by=(f"{_COMPLIANCE}::TestKafkaLog::test_h26_a_sink_from_before_the_first_claim_is_not_claimed",),
    ),
    Mutant(
        name="a slot that comes into use again forgets what it has applied",
        rule="H32",
        path=_LEDGER,
        before="_applied(scope.incarnation, max(found.slots, self.slots))",
        after="_applied(scope.incarnation, found.slots)",
        caught_by=(
            "tests/connectors/kafka/test_ledger.py::test_a_slot_that_is_in_use_again_keeps_what_it_says_of_the_checkpoint_before",
        ),
    ),
    Mutant(
        name="a slot that is elsewhere begins where it must",
        rule="H26",
        path=_LEDGER,
        before="            if slot in applied and slot < found.slots:\n",
        after="            if slot in applied and slot < 0:\n",
        caught_by=(f"{_COMPLIANCE}::TestKafkaLog::test_h33_a_checkpoint_that_a_sink_has_is_not_permitted_again",),
    ),
    Mutant(
        name="slots of an at-least-once run stay where they were",
        rule="R9",
        path=_LEDGER,
        before="""            if applied < checkpoint_id:
                self._begin(""",
        after="""            if applied > checkpoint_id:
                self._begin(""",
        caught_by=(f"{_COMPLIANCE}::TestKafkaLog::test_a_run_may_be_at_least_once_between_two_that_are_exactly_once",),
    ),
    Mutant(
        name="an applied checkpoint is aborted",
        rule="R8",
        path=_LEDGER,
        before="""        if not entries.seen:
            delete(transactions)
        return min(entries.seen, default=None)
""",
        after="""        delete(transactions)
        return None
""",
        caught_by=(f"{_COMPLIANCE}::TestKafkaLog::test_what_is_committed_is_not_aborted",),
    ),
    Mutant(
        name="a claim that was aborted counts",
        rule="H10",
        path=_MARKERS,
        before='replace(connection, isolation_level="read_committed", properties=quick)',
        after='replace(connection, isolation_level="read_uncommitted", properties=quick)',
        caught_by=(f"{_ON_KAFKA}::test_a_claim_that_was_aborted_was_never_made",),
    ),
    Mutant(
        name="an open transaction among the markers is not waited for",
        rule="H10",
        path=_MARKERS,
        before="        self._await_stable(split, end)\n",
        after="",
        caught_by=(f"{_ON_KAFKA}::test_an_open_transaction_among_the_markers_is_waited_for_and_said",),
    ),
    Mutant(
        name='markers that were made again look like "never applied"',
        rule="H10",
        path=_MARKERS,
        before="        if end < start:\n",
        after="        if end < 0:\n",
        caught_by=(f"{_ON_KAFKA}::test_h10_markers_that_were_made_again_tell_nothing",),
    ),
    Mutant(
        name="a foreign record under a key of ours is taken for ours",
        rule="H10",
        path=_MARKERS,
        before="""        if not isinstance(parsed, dict):
            raise self._foreign(key)
""",
        after="""        if not isinstance(parsed, dict):
            parsed = {"incarnation": "", "epoch": 0, "slots": 1}
""",
        caught_by=(f"{_ON_KAFKA}::test_foreign_records_among_the_markers_are_left_alone",),
    ),
    Mutant(
        name="markers that retention deletes are taken",
        rule="H10",
        path=_TARGET,
        before='    if policy != "compact" or len(found.partitions) < PARTITIONS:\n',
        after='    if "compact" not in policy or len(found.partitions) < PARTITIONS:\n',
        caught_by=(f"{_ON_KAFKA}::test_h10_markers_that_would_be_forgotten_are_refused_before_a_claim",),
    ),
    Mutant(
        name="markers in a topic with too few partitions are taken",
        rule="H10",
        path=_TARGET,
        before='    if policy != "compact" or len(found.partitions) < PARTITIONS:\n',
        after='    if policy != "compact" or not found.partitions:\n',
        caught_by=(f"{_ON_KAFKA}::test_h10_markers_that_would_be_forgotten_are_refused_before_a_claim",),
    ),
    Mutant(
        name="a transaction longer than the brokers allow is met after the decision",
        rule=_TOPICS,
        path=_TARGET,
        before="    if place.transaction_timeout_s > most_s:\n",
        after="    if place.transaction_timeout_s < 0 * most_s:\n",
        caught_by=(f"{_ON_KAFKA}::test_h10_markers_that_would_be_forgotten_are_refused_before_a_claim",),
    ),
    Mutant(
        name="rows go among the markers",
        rule="H10",
        path=_TARGET,
        before="    if topic == markers:\n",
        after='    if topic == "":\n',
        caught_by=(f"{_ON_KAFKA}::test_no_row_goes_among_the_markers",),
    ),
    Mutant(
        name="at-least-once a message that is not delivered is lost",
        rule=_AT_LEAST_ONCE,
        path=_PRODUCER,
        before="""        self._call("waiting for delivery", self._handle.flush)
        self._check()
""",
        after='        self._call("waiting for delivery", self._handle.flush)\n',
        caught_by=(f"{_ON_KAFKA}::test_at_least_once_a_message_that_is_not_delivered_fails_the_task",),
    ),
    Mutant(
        name="at-least-once writes to a compacted topic",
        rule=_AT_LEAST_ONCE,
        path=_TARGET,
        before="""        if repeats:
            check_repeats(place.topic, facts)
        return cls""",
        after="        return cls",
        caught_by=(f"{_ON_KAFKA}::test_at_least_once_no_task_writes_to_a_compacted_topic",),
    ),
)
