"""Change events: each is a row, is omitted, or is bad, and its values are those of the table."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PACKAGE: Final = "connectors/formats/debezium"
_READER: Final = "connectors/kafka/reader.py"
_TESTS: Final = "tests/connectors/formats/debezium"
_EVENTS: Final = f"{_TESTS}/test_debezium_events.py::test_"
_TYPES: Final = f"{_TESTS}/test_debezium_types.py::test_"
_AVRO: Final = f"{_TESTS}/test_debezium_avro.py::test_"
_POSITIONS: Final = f"{_TESTS}/test_source_positions.py::test_"
_CANAL: Final = "tests/connectors/formats/binlog_json/test_canal.py::test_"
_READER_TESTS: Final = "tests/connectors/kafka/test_reader.py::test_"
_TABLE_TESTS: Final = f"{_TESTS}/test_debezium_tables.py::test_"
_BATCH_TESTS: Final = "tests/connectors/kafka/test_table_batches.py::test_"
_TABLES_RULE: Final = "docs/reference/formats.md, Records with their own schema"
_RULE: Final = "docs/reference/formats.md, Debezium"

MUTANTS: Final = (
    Mutant(
        name="rows of a table have the metadata of other records",
        rule=_TABLES_RULE,
        path="connectors/kafka/table_batches.py",
        before="    own = pa.array(numbers)\n",
        after="    own = pa.array(np.arange(len(numbers)))\n",
        caught_by=(f"{_BATCH_TESTS}a_batch_is_of_one_table",),
    ),
    Mutant(
        name="a key with a field that its rows lack is the key of their table",
        rule=_TABLES_RULE,
        path=f"{_PACKAGE}/event_table.py",
        before="    missing = [name for name in key if name not in row.names]\n",
        after="    missing = []\n",
        caught_by=(f"{_TABLE_TESTS}a_key_that_rows_do_not_have_makes_its_records_bad", f"{_TABLE_TESTS}keys_of_avro"),
    ),
    Mutant(
        name="a table has a column of the name of a metadata column",
        rule=_TABLES_RULE,
        path="connectors/formats/tables.py",
        before="        if name.lower() in reserved:\n",
        after="        if name in own:\n",
        caught_by=(f"{_TABLE_TESTS}a_record_without_a_table_is_bad_and_no_other",),
    ),
    Mutant(
        name="the schema that a key names is not kept",
        rule="H35",
        path=f"{_PACKAGE}/avro_tables.py",
        before="        outcome.schemas |= {name.format(key): each.fingerprint for key, each in found.items()}\n",
        after="",
        caught_by=(f"{_TABLE_TESTS}h35_schemas_of_values_and_keys_are_pinned",),
    ),
    Mutant(
        name="an omitted record shifts the metadata of the rows behind it",
        rule=_RULE,
        path=_READER,
        before=".union(decoded.omitted)\n",
        after="\n",
        caught_by=(f"{_READER_TESTS}an_omitted_record_is_neither_a_row_nor_bad",),
    ),
    Mutant(
        name="an omitted record is a dead letter for its metadata",
        rule=_RULE,
        path=_READER,
        before="metadata.why(may_be_bad).keys() - set(decoded.omitted)",
        after="metadata.why(may_be_bad).keys()",
        caught_by=(f"{_READER_TESTS}an_omitted_record_is_neither_a_row_nor_bad",),
    ),
    Mutant(
        name="a row of a record has the metadata of another record",
        rule=_RULE,
        path=_READER,
        before="            yield column if of_rows is None else column.take(of_rows)\n",
        after="            yield column if of_rows is None else column.take(pa.array(numbers // 2))\n",
        caught_by=(f"{_READER_TESTS}each_row_of_a_record_has_its_metadata",),
    ),
    Mutant(
        name="rows of a bad record stay",
        rule="docs/reference/formats.md, Maxwell and Canal",
        path="connectors/formats/outcome.py",
        before="            kept = ~np.isin(places, places[list(faults)])\n",
        after="            kept = ~np.isin(np.arange(len(places)), list(faults))\n",
        caught_by=(f"{_CANAL}one_bad_row_makes_the_message_bad",),
    ),
    Mutant(
        name="an update of the key leaves the old row",
        rule="docs/reference/formats.md, Maxwell and Canal",
        path="connectors/formats/binlog_json/images.py",
        before="        moved = self._moved(images)\n",
        after="        moved = np.zeros(len(images.records), np.bool_)\n",
        caught_by=(f"{_CANAL}an_update_of_keys_deletes_the_old_rows",),
    ),
    Mutant(
        name="documents of other tables are rows",
        rule="docs/reference/formats.md, Maxwell and Canal",
        path="connectors/formats/binlog_json/documents.py",
        before="            mine &= flags(pc.fill_null(pc.equal(parts[name], wanted), False))\n",
        after="            mine &= flags(parts[name].is_valid())\n",
        caught_by=(f"{_CANAL}messages_without_rows_of_the_table_are_omitted",),
    ),
    Mutant(
        name="the rows of a key in one record have no order",
        rule="docs/reference/sinks.md, Rows of one record",
        path="connectors/log/keyed.py",
        before="        return (*first, *(_BY_ROW if self.by_row else _BY_OFFSET))\n",
        after="        return (*first, *_BY_OFFSET)\n",
        caught_by=(
            "tests/connectors/log/test_rows_of_one_record.py::test_the_last_row_of_a_key_in_a_record_is_the_newest",
        ),
    ),
    Mutant(
        name="a flattened row counts as a heartbeat",
        rule=_RULE,
        path=f"{_PACKAGE}/json_events.py",
        before=r"""*:\s*[0-9]+\s*,?)+\}\s*$'""",
        after=r"""*:\s*[0-9]+\s*,?)+'""",
        caught_by=(f"{_EVENTS}records_that_are_no_events_are_bad",),
    ),
    Mutant(
        name="a truncate is left out unasked",
        rule=_RULE,
        path=f"{_PACKAGE}/debezium_format.py",
        before='            if op == _TRUNCATE and self.truncate == "skip":\n',
        after="            if op == _TRUNCATE:\n",
        caught_by=(f"{_EVENTS}a_truncate_is_omitted_only_if_the_spec_says_so",),
    ),
    Mutant(
        name="a deletion without a row is a row of nulls",
        rule=_RULE,
        path=f"{_PACKAGE}/debezium_format.py",
        before="        add_faults(faults, without_values(columns, len(events.places)), _NO_KEY)\n",
        after="",
        caught_by=(f"{_EVENTS}a_deletion_without_before_needs_a_key",),
    ),
    Mutant(
        name="a value that was not logged is written as the placeholder",
        rule=_RULE,
        path=f"{_PACKAGE}/debezium_format.py",
        before='                add_faults(faults, unlogged & writes, f"{self.row.names[at]}: {_UNLOGGED}")\n',
        after="                continue\n",
        caught_by=(f"{_EVENTS}a_value_that_was_not_logged_is_bad_in_each_form",),
    ),
    Mutant(
        name="a text behind the payload is ignored",
        rule=_RULE,
        path=f"{_PACKAGE}/schema_part.py",
        before="        outcome.reject(found[~complete], _NO_PAYLOAD)\n        yield Group(found[complete], payloads.filter(pa.array(complete)),",
        after="        yield Group(found, payloads,",
        caught_by=(f"{_EVENTS}records_that_are_no_events_are_bad",),
    ),
    Mutant(
        name="milliseconds are read as microseconds",
        rule=_RULE,
        path=f"{_PACKAGE}/times.py",
        before="        micros = np.where(wrong, 0, numbers) * times\n",
        after="        micros = np.where(wrong, 0, numbers)\n",
        caught_by=(f"{_TYPES}by_the_schema_of_the_record", f"{_TYPES}moments_are_exact_or_bad"),
    ),
    Mutant(
        name="a decimal has the scale of its column whatever its own is",
        rule=_RULE,
        path=f"{_PACKAGE}/readings.py",
        before="            scale = target.scale if written is None or written.scale is None else written.scale\n",
        after="            scale = target.scale\n",
        caught_by=(f"{_TYPES}decimals_are_exact_or_bad",),
    ),
    Mutant(
        name="a number without a unit is taken for microseconds",
        rule=_RULE,
        path=f"{_PACKAGE}/readings.py",
        before='    return _UNKNOWN if target == pa.timestamp("us") else ""\n',
        after='    return "MicroTimestamp" if target == pa.timestamp("us") else ""\n',
        caught_by=(f"{_TYPES}a_number_without_a_unit_is_bad",),
    ),
    Mutant(
        name="positions of PostgreSQL are in the order of writing and not of commits",
        rule=_RULE,
        path=f"{_PACKAGE}/source_position.py",
        before='        ("sequence", lambda: _sequence(part["sequence"])),\n',
        after="",
        caught_by=(f"{_POSITIONS}positions_sort_as_the_log",),
    ),
    Mutant(
        name="the millionth binlog file sorts before the others",
        rule=_RULE,
        path="connectors/formats/log_position.py",
        before="    return padded(numbers.take(coded.indices))\n",
        after="    return numbers.take(coded.indices)\n",
        caught_by=(f"{_POSITIONS}positions_sort_as_the_log",),
    ),
    Mutant(
        name="schemas of keys are not reported",
        rule="H35",
        path=f"{_PACKAGE}/avro_events.py",
        before="        refused = Outcome(self.schema, schemas=outcome.schemas)\n",
        after="        refused = Outcome(self.schema)\n",
        caught_by=(f"{_AVRO}h35_schemas_of_values_and_keys_are_pinned",),
    ),
    Mutant(
        name="a format of change events drops pinned schemas",
        rule="H35",
        path=f"{_PACKAGE}/avro_events.py",
        before="        return replace(self, writers=replace(self.writers, pinned=known))\n",
        after="        return self\n",
        caught_by=(f"{_AVRO}h35_schemas_of_values_and_keys_are_pinned",),
    ),
    Mutant(
        name="any schema of Avro without `op` is omitted",
        rule=_RULE,
        path=f"{_PACKAGE}/avro_schema.py",
        before="            return OMITTED if is_known else ",
        after="            return OMITTED if is_known or fields else ",
        caught_by=(f"{_AVRO}a_schema_that_cannot_be_read_makes_its_records_bad",),
    ),
    Mutant(
        name="a double becomes a decimal by rounding",
        rule=_RULE,
        path=f"{_PACKAGE}/readings.py",
        before="    return cast_each(values.cast(pa.string()), target)\n",
        after="    return cast_each(values, target)\n",
        caught_by=(f"{_AVRO}a_value_that_does_not_fit_is_bad",),
    ),
    Mutant(
        name="a deletion of an upsert topic without a key is a row of nulls",
        rule="docs/reference/formats.md, Upsert topics",
        path=f"{_PACKAGE}/upsert_format.py",
        before="        add_faults(faults, deleted & without_values(columns, len(values)), _NO_KEY)\n",
        after="",
        caught_by=(f"{_TESTS}/test_upsert_format.py::test_bad_records",),
    ),
    Mutant(
        name="the key of an upsert topic counts before the value",
        rule="docs/reference/formats.md, Upsert topics",
        path=f"{_PACKAGE}/upsert_format.py",
        before="pc.coalesce(own, key)",
        after="pc.coalesce(key, own)",
        caught_by=(f"{_TESTS}/test_upsert_format.py::test_columns_that_a_value_lacks_are_in_its_key",),
    ),
)
