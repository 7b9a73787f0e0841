"""Kafka as a source: records that are left out, and offsets in a query of one's own."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_READER: Final = "connectors/kafka/reader.py"
_BEGUN: Final = "spark_jobs/adapters/kafka_format.py"
_QUERY_READER: Final = "spark_jobs/adapters/kafka_format.py"
_READER_TESTS: Final = "tests/connectors/kafka/test_reader.py"
_FORMAT_TESTS: Final = "tests/spark_jobs/adapters/test_kafka_format.py"
_BAD_RECORDS: Final = "docs/reference/sources.md, Records that do not decode"

MUTANTS: Final = (
    Mutant(
        name="a record that is left out is not counted",
        rule=_BAD_RECORDS,
        path=_READER,
        before="    on_bad_records(len(bad))\n",
        after="    on_bad_records(len(decoded.bad))\n",
        caught_by=(f"{_READER_TESTS}::test_what_is_left_out_is_counted_and_the_others_stay",),
    ),
    Mutant(
        name="a record whose metadata does not fit becomes a row with NULL",
        rule=_BAD_RECORDS,
        path=_READER,
        before="    return [each.without(unfit) if unfit else each.rows for each in batches]\n",
        after="    return [each.rows for each in batches]\n",
        caught_by=(f"{_READER_TESTS}::test_what_is_left_out_is_counted_and_the_others_stay",),
    ),
    Mutant(
        name="a bad record is told under the offset of another one",
        rule=_BAD_RECORDS,
        path=_READER,
        before="    reasons = (Undecodable(places[number], ",
        after="    reasons = (Undecodable(number, ",
        caught_by=(f"{_READER_TESTS}::test_what_is_left_out_is_told_with_its_offsets",),
    ),
    Mutant(
        name="a record that is put aside for its metadata is not found again",
        rule=_BAD_RECORDS,
        path=_READER,
        before='            reasons = dict.fromkeys(unfit, "") | {each.index: each.reason for each in decoded.bad}\n',
        after="            reasons = {each.index: each.reason for each in decoded.bad}\n",
        caught_by=(f"{_READER_TESTS}::test_what_a_reader_puts_aside_is_what_is_found_again",),
    ),
    Mutant(
        name="records of two splits come in one batch",
        rule="R6",
        path=_READER,
        before="if gathered and (is_full or split_of(gathered[0]) != split_of(chunk[0])):",
        after="if gathered and is_full:",
        caught_by=(f"{_READER_TESTS}::test_groups_are_of_one_split_and_hold_every_record",),
    ),
    Mutant(
        name="half of a large chunk is lost",
        rule="R6",
        path=_READER,
        before="    yield from _halved(chunk[half:])\n",
        after="    yield from _halved(chunk[half + 1 :])\n",
        caught_by=(f"{_READER_TESTS}::test_groups_are_of_one_split_and_hold_every_record",),
    ),
    Mutant(
        name="`on_bad_record: fail` leaves out",
        rule=_BAD_RECORDS,
        path=_READER,
        before='    if on_bad_record == "fail":\n',
        after='    if on_bad_record == "fail" and decoded.bad:\n',
        caught_by=(f"{_READER_TESTS}::test_the_first_bad_record_stops_the_reader",),
    ),
    Mutant(
        name="a time that no column holds is NULL and nobody is told",
        rule=_BAD_RECORDS,
        path="connectors/kafka/columns.py",
        before="        at = pc.indices_nonzero(pc.fill_null(wrong, False)).to_pylist()\n",
        after="        at: list[int] = []\n",
        caught_by=("tests/connectors/test_dead_letters.py::test_a_time_that_no_sink_takes_is_told_in_the_error",),
    ),
    Mutant(
        name="sources of a query that change places read each other's topics",
        rule="docs/reference/sources.md, In a query of your own",
        path=_QUERY_READER,
        before="        if offset.source == self._name or (",
        after="        if offset.source.startswith(FORMAT) or (",
        caught_by=(f"{_FORMAT_TESTS}::test_sources_that_change_places_in_the_query_are_refused",),
    ),
    Mutant(
        name="offsets from before there were ids are taken for any source's",
        rule="docs/reference/sources.md, In a query of your own",
        path=_QUERY_READER,
        before="(offset.source == FORMAT and all(map(self._reads, topics)))",
        after="offset.source == FORMAT",
        caught_by=(f"{_FORMAT_TESTS}::test_offsets_and_a_folder_of_before_there_were_ids",),
    ),
    Mutant(
        name="a topic that was made again under a query is read on",
        rule="H23",
        path=_QUERY_READER,
        before="            if self._began.identities.get(topic, identity) != identity:",
        after="            if topic not in self._began.identities:",
        caught_by=(f"{_FORMAT_TESTS}::test_h23_a_topic_is_known_by_the_id_of_the_plan_that_found_it",),
    ),
    Mutant(
        name="a source takes the first offsets of another one",
        rule="R6",
        path=_BEGUN,
        before="    if topics and not any(source.reads(topic) for topic in topics):\n",
        after="    if topics and not any(topics):\n",
        caught_by=(f"{_FORMAT_TESTS}::test_a_folder_that_holds_another_sources_first_offsets_is_refused",),
    ),
    Mutant(
        name="damaged first offsets are asked for anew",
        rule="R6",
        path=_BEGUN,
        before='        raise HeadFormatError(message, remedy="restore the folder from a backup") from error\n',
        after='        return Begun(location, "", StartingPoint())\n',
        caught_by=(f"{_FORMAT_TESTS}::test_damaged_first_offsets_are_refused",),
    ),
    Mutant(
        name="a misspelled option of a source is left out",
        rule="docs/reference/sources.md, In a query of your own",
        path="spark_jobs/adapters/kafka_format.py",
        before="    if unknown:\n",
        after="    if unknown and not given:\n",
        caught_by=(f"{_FORMAT_TESTS}::test_a_wrong_option_is_refused_by_name",),
    ),
)
