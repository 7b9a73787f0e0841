"""Kafka as a sink: rows become messages, and what a producer is made with."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_MESSAGES: Final = "connectors/kafka/sink/messages.py"
_LAYOUT: Final = "connectors/kafka/sink/layout.py"
_MARKERS: Final = "connectors/kafka/sink/markers.py"
_PLACE: Final = "connectors/kafka/sink/place.py"
_MESSAGE_TESTS: Final = "tests/connectors/kafka/test_messages.py"
_SETTING_TESTS: Final = "tests/connectors/kafka/test_settings.py"
_TOPICS: Final = "docs/reference/sinks.md, Topics"

MUTANTS: Final = (
    Mutant(
        name="the microseconds of a message's time are cut off",
        rule="docs/reference/sinks.md, Values",
        path=_MESSAGES,
        before="pc.not_equal(whole.cast(column.type), column)",
        after="pc.less(stamps, -1)",
        caught_by=("tests/connectors/kafka/test_message_time.py::test_a_time_with_microseconds_is_a_bad_row",),
    ),
    Mutant(
        name="a deleted row is a message with a value",
        rule=_TOPICS,
        path=_MESSAGES,
        before="        return pc.if_else(gone, pa.scalar(None, pa.binary()), values)\n",
        after="        return values\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_a_row_that_is_deleted_is_a_tombstone_and_no_other_is",),
    ),
    Mutant(
        name="a row of which nothing says whether it is deleted is a tombstone",
        rule=_TOPICS,
        path=_MESSAGES,
        before="        gone = pc.fill_null(batch.column(self.layout.deleted), False)\n",
        after="        gone = pc.fill_null(batch.column(self.layout.deleted), True)\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_a_row_that_is_deleted_is_a_tombstone_and_no_other_is",),
    ),
    Mutant(
        name="the column that says `deleted` is a part of the value",
        rule=_TOPICS,
        path=_LAYOUT,
        before="self.partition, self.timestamp, self.deleted}\n",
        after="self.partition, self.timestamp}\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_a_row_that_is_deleted_is_a_tombstone_and_no_other_is",),
    ),
    Mutant(
        name="tombstones without a key are written",
        rule=_TOPICS,
        path=_LAYOUT,
        before="        if self.deleted is not None and not self.key:\n",
        after="        if self.deleted is not None and self.key is None:\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_rows_that_make_no_messages_are_refused_at_the_start",),
    ),
    Mutant(
        name="a value of another type than the format's is cast",
        rule=_TOPICS,
        path=_LAYOUT,
        before="""        if self.format == "string":
            wanted[VALUE] = ("text", _is_text)
""",
        after="",
        caught_by=(f"{_MESSAGE_TESTS}::test_rows_that_make_no_messages_are_refused_at_the_start",),
    ),
    Mutant(
        name="the headers of a row go to another row",
        rule=_TOPICS,
        path=_MESSAGES,
        before="        order = (np.arange(rows)[:, None] + np.arange(count)[None, :] * rows).ravel()\n",
        after="        order = np.arange(rows * count)\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_everything_of_a_message_is_of_its_own_row",),
    ),
    Mutant(
        name="of a part of the messages the headers are those of the first part",
        rule=_TOPICS,
        path=_MESSAGES,
        before="    return [pairs[start - ends[0] : end - ends[0]] for start, end in pairwise(ends)]\n",
        after="    return [pairs[start:end] for start, end in pairwise(ends)]\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_parts_keep_the_headers_of_their_rows",),
    ),
    Mutant(
        name="a message goes where the partitioner says, whatever its column says",
        rule=_TOPICS,
        path=_MESSAGES,
        before="            -1 if partition is None else partition,\n",
        after="            -1 if partition else 0,\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_everything_of_a_message_is_of_its_own_row",),
    ),
    Mutant(
        name="headers that a record had are lost",
        rule=_TOPICS,
        path=_MESSAGES,
        before="            [*decode_headers(text), *((name",
        after="            [*((name",
        caught_by=(f"{_MESSAGE_TESTS}::test_headers_that_a_record_had_come_before_ours",),
    ),
    Mutant(
        name="a partition that the topic lacks is met after the decision",
        rule=_TOPICS,
        path=_MESSAGES,
        before="pc.greater_equal(partitions, most)",
        after="pc.greater(partitions, most)",
        caught_by=(f"{_MESSAGE_TESTS}::test_what_kafka_would_refuse_is_a_bad_row",),
    ),
    Mutant(
        name="a message that is too large is met after the decision",
        rule=_TOPICS,
        path=_MESSAGES,
        before="        if (pc.max(sizes).as_py() or 0) > most:\n",
        after="        if (pc.max(sizes).as_py() or 0) > 2 * most:\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_what_kafka_would_refuse_is_a_bad_row",),
    ),
    Mutant(
        name="headers do not count for the size of a message",
        rule=_TOPICS,
        path=_MESSAGES,
        before="        columns = [_header(batch.column(name)) for name in headers]\n",
        after="        columns: list[pa.Array] = []\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_what_kafka_would_refuse_is_a_bad_row",),
    ),
    Mutant(
        name="a time that the topic refuses is met after the decision",
        rule=_TOPICS,
        path=_MESSAGES,
        before="            if facts.before_ms is not None:\n",
        after="            if facts.before_ms is None:\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_what_kafka_would_refuse_is_a_bad_row",),
    ),
    Mutant(
        name="a message without a key for a compacted topic is met after the decision",
        rule=_TOPICS,
        path=_MESSAGES,
        before="            if not self.topics.of(topic).compacted:\n",
        after="            if self.topics.of(topic).compacted:\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_a_compacted_topic_gets_no_message_without_a_key",),
    ),
    Mutant(
        name="a bad row is told under the number of another one",
        rule=_TOPICS,
        path=_MESSAGES,
        before="            at = pc.index(pc.greater(sizes, most), True).as_py()\n",
        after="            at = 0\n",
        caught_by=(f"{_MESSAGE_TESTS}::test_what_kafka_would_refuse_is_a_bad_row",),
    ),
    Mutant(
        name="the user's properties take idempotence from a producer",
        rule="R10",
        path=_PLACE,
        before='            "enable.idempotence": True,\n',
        after='            "enable.idempotence": dict(self.connection.properties).get("enable.idempotence", True),\n',
        caught_by=(f"{_SETTING_TESTS}::test_what_the_users_properties_cannot_take_from_a_producer",),
    ),
    Mutant(
        name="the user's properties give a slot another transactional id",
        rule="R2",
        path=_PLACE,
        before="""            **self.producer(batch_bytes),
            "transactional.id": transactional_id,
""",
        after="""            "transactional.id": transactional_id,
            **self.producer(batch_bytes),
""",
        caught_by=(f"{_SETTING_TESTS}::test_what_the_users_properties_cannot_take_from_a_producer",),
    ),
    Mutant(
        name="a dead connection is waited for as long as a transaction may take",
        rule="R10",
        path=_PLACE,
        before="min(SILENCE_MS, self._timeout_ms // 4)",
        after="max(SILENCE_MS, self._timeout_ms)",
        caught_by=(f"{_SETTING_TESTS}::test_what_the_users_properties_cannot_take_from_a_producer",),
    ),
    Mutant(
        name="two lives of a pipeline share a marker",
        rule="R10",
        path=_PLACE,
        before='{self.sink}.{incarnation}.{slot}"',
        after='{self.sink}.{slot}"',
        caught_by=(f"{_SETTING_TESTS}::test_a_transactional_id_is_the_same_in_every_life_and_a_marker_is_not",),
    ),
    Mutant(
        name="a marker is looked for elsewhere than it was written",
        rule="H10",
        path=_MARKERS,
        before="    return 1 + crc32(key.encode()) % (PARTITIONS - 1)\n",
        after="    return 1 + crc32(key.encode()) % PARTITIONS\n",
        caught_by=(f"{_SETTING_TESTS}::test_a_key_stays_in_its_partition_for_good",),
    ),
)
