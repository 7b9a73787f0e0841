"""Formats: a value of a record or of a row is as it was, or it is refused."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_VALUES: Final = "connectors/formats/json_values.py"
_WIRE: Final = "connectors/formats/wire.py"
_TEXT: Final = "connectors/formats/json_text.py"
_DECODE: Final = "connectors/formats/decode.py"
_LOSS: Final = "connectors/formats/json_loss.py"
_PLAIN: Final = "connectors/formats/plain.py"
_JSON_TESTS: Final = "tests/connectors/formats/test_json.py"
_SPEED_TESTS: Final = "tests/connectors/formats/test_bad_records_speed.py"
_LOSS_TESTS: Final = "tests/connectors/formats/test_json_loss.py"
_PLAIN_TESTS: Final = "tests/connectors/formats/test_plain.py"
_ENCODE_TESTS: Final = "tests/connectors/sql/test_encode.py"
_NESTED_TESTS: Final = "tests/connectors/sql/test_nested_values.py"
_RECORDS: Final = "docs/reference/sources.md, Records that do not decode"
_NESTED: Final = "docs/reference/sinks.md, Nested values"

_CLIENT: Final = "tests/connectors/schema_registry/test_registry_client.py::test_"

MUTANTS: Final = (
    Mutant(
        name="a task takes another schema than the one of head",
        rule="H35",
        path="connectors/formats/registered.py",
        before="        if now != before:\n",
        after="        if now != before and before == UNKNOWN:\n",
        caught_by=(
            "tests/connectors/formats/avro/test_avro_registered.py::test_h35_a_pinned_name_has_its_schema_or_the_task_fails",
        ),
    ),
    Mutant(
        name="a process forgets schemas within one batch",
        rule="docs/reference/formats.md, Schema registry",
        path="connectors/schema_registry/client.py",
        before="    return found\n\n\ndef subjects",
        after="    return {each: registry._known.get(each) for each in ids}\n\n\ndef subjects",
        caught_by=(f"{_CLIENT}more_schemas_than_a_process_keeps_are_known_in_one_batch",),
    ),
    Mutant(
        name="each status 404 says that a registry does not know an id",
        rule="docs/reference/formats.md, Schema registry",
        path="connectors/schema_registry/client.py",
        before="                if error.error_code == _NO_SUCH_ID:\n",
        after="                if error.http_status_code == 404:\n",
        caught_by=(f"{_CLIENT}an_answer_that_is_not_a_registrys_is_an_outage",),
    ),
    Mutant(
        name="an answer without a schema is an unknown id",
        rule="docs/reference/formats.md, Schema registry",
        path="connectors/schema_registry/client.py",
        before='                raise ValueError("an answer without a schema")\n',
        after="                return None\n",
        caught_by=(f"{_CLIENT}an_answer_that_is_not_a_registrys_is_an_outage",),
    ),
    Mutant(
        name="a task does not report the schemas of its records",
        rule="H35",
        path="spark_jobs/query/marks.py",
        before="        if schemas := met.new():\n",
        after="        if (schemas := met.new()) and batch.num_rows == 0:\n",
        caught_by=(
            "tests/connectors/test_dead_letters.py::test_h35_a_mark_with_schemas_comes_before_their_first_record",
        ),
    ),
    Mutant(
        name="a value with two JSON documents gives two rows",
        rule=_RECORDS,
        path=_VALUES,
        before="    if len(table) != len(values):\n",
        after="    if len(table) < len(values):\n",
        caught_by=(f"{_JSON_TESTS}::test_each_value_decodes_as_it_would_alone",),
    ),
    Mutant(
        name="a value that is no JSON object is decoded all the same",
        rule=_RECORDS,
        path=_VALUES,
        before="""        if not _is_braced(text):
            raise ValueError("not a JSON object")
""",
        after="",
        caught_by=(f"{_JSON_TESTS}::test_each_value_decodes_as_it_would_alone",),
    ),
    Mutant(
        name="a tombstone is a bad record",
        rule=_RECORDS,
        path=_VALUES,
        before="    values = values.fill_null(_TOMBSTONE)\n",
        after='    values = values.fill_null(b"")\n',
        caught_by=(f"{_JSON_TESTS}::test_tombstones",),
    ),
    Mutant(
        name="NaN and infinite numbers of a record are taken",
        rule=_RECORDS,
        path=_WIRE,
        before="        if not _holds(pc.is_finite(values)):\n",
        after="        if not _holds(pc.is_valid(values)):\n",
        caught_by=(f"{_JSON_TESTS}::test_what_does_not_fit_is_bad",),
    ),
    Mutant(
        name="a decimal that Arrow scales up overflows silently",
        rule=_RECORDS,
        path=_WIRE,
        before="        return pa.decimal256(_DECIMAL_DIGITS, kind.scale)\n",
        after="        return kind\n",
        caught_by=(f"{_JSON_TESTS}::test_what_does_not_fit_is_bad",),
    ),
    Mutant(
        name="a NOT NULL field inside a struct may be missing",
        rule=_RECORDS,
        path=_WIRE,
        before="    if not child.nullable and pc.any(",
        after='    if child.name == "" and pc.any(',
        caught_by=(f"{_JSON_TESTS}::test_what_does_not_fit_is_bad",),
    ),
    Mutant(
        name="a time with a zone is taken for one without",
        rule=_RECORDS,
        path=_WIRE,
        before='    if kind in (pa.date32(), pa.timestamp("us"), pa.binary()):\n',
        after="    if kind in (pa.date32(), pa.binary()):\n",
        caught_by=(f"{_JSON_TESTS}::test_what_does_not_fit_is_bad",),
    ),
    Mutant(
        name="base64 without its padding is taken",
        rule=_RECORDS,
        path=_WIRE,
        before="    if not _holds(pc.equal(pc.bit_wise_and(lengths, 3), 0)):\n",
        after="    if not _holds(pc.equal(pc.bit_wise_and(lengths, 0), 0)):\n",
        caught_by=(f"{_JSON_TESTS}::test_base64_of_two_values_that_is_whole_only_together",),
    ),
    Mutant(
        name="base64 with padding in its middle is taken",
        rule=_RECORDS,
        path=_WIRE,
        before='    if not _holds(pc.equal(pc.count_substring(text, b"="), padding)):\n',
        after='    if not _holds(pc.greater_equal(pc.count_substring(text, b"="), padding)):\n',
        caught_by=(f"{_JSON_TESTS}::test_what_does_not_fit_is_bad",),
    ),
    Mutant(
        name="of a batch with a bad record the wrong one is left out",
        rule=_RECORDS,
        path=_DECODE,
        before="            parts.found.update((first + at, answer)",
        after="            parts.found.update((at, answer)",
        caught_by=(f"{_JSON_TESTS}::test_a_whole_batch_with_one_bad_value",),
    ),
    Mutant(
        name="a bad record is dropped without a word",
        rule=_RECORDS,
        path=_DECODE,
        before="                self.found[places[0]] = error\n",
        after="                str(error)\n",
        caught_by=(f"{_SPEED_TESTS}::test_any_values_are_decoded_as_by_halving",),
    ),
    Mutant(
        name="the smallest number of a column is called bad",
        rule=_RECORDS,
        path="connectors/formats/json_checks.py",
        before="            return None if first <= value <= last else OTHER\n",
        after="            return None if first < value <= last else OTHER\n",
        caught_by=(f"{_SPEED_TESTS}::test_rows_and_reasons_are_those_of_the_version_that_halved",),
    ),
    Mutant(
        name="what is wrong with a record is told of another column",
        rule=_RECORDS,
        path="connectors/formats/json_judge.py",
        before="                is_sure = False\n",
        after="                is_sure = is_plain\n",
        caught_by=(f"{_SPEED_TESTS}::test_any_values_are_decoded_as_by_halving",),
    ),
    Mutant(
        name="a record is bad for a number that the parser takes where no column is given it",
        rule=_RECORDS,
        path="connectors/formats/json_judge.py",
        before="if exponent and int(exponent) > _LARGEST_EXPONENT + len(text):",
        after="if len(text) < _LONG:",
        caught_by=(f"{_SPEED_TESTS}::test_any_values_are_decoded_as_by_halving",),
    ),
    Mutant(
        name="text that is not UTF-8 is taken",
        rule=_RECORDS,
        path=_PLAIN,
        before="        return pa.record_batch([values.cast(pa.string())], schema=self._SCHEMA)\n",
        after="        return pa.record_batch([values.cast(pa.string(), safe=False)], schema=self._SCHEMA)\n",
        caught_by=(f"{_PLAIN_TESTS}::test_a_bad_string_is_explained",),
    ),
    Mutant(
        name="two columns whose names differ in case are taken",
        rule=_RECORDS,
        path="connectors/formats/ddl.py",
        before="            if name.text.lower() in seen:\n",
        after="            if name.text in seen:\n",
        caught_by=("tests/connectors/formats/test_ddl.py::test_mistakes_are_pointed_at",),
    ),
    Mutant(
        name="NaN and infinity are written as JSON",
        rule=_NESTED,
        path=_TEXT,
        before="    if pc.all(pc.is_finite(values)).as_py() is False:\n",
        after="    if pc.all(pc.is_finite(values)).as_py() is None:\n",
        caught_by=(f"{_ENCODE_TESTS}::test_a_number_that_json_does_not_have_is_refused",),
    ),
    Mutant(
        name="a long decimal is written as a number that loses digits",
        rule=_NESTED,
        path=_TEXT,
        before="        return text if kind.precision <= EXACT_DIGITS else _quoted(text)\n",
        after="        return text\n",
        caught_by=(f"{_NESTED_TESTS}::test_the_text_is_the_same",),
    ),
    Mutant(
        name="of two equal keys of a map one is lost",
        rule=_NESTED,
        path=_TEXT,
        before="    _refuse_equal(values, keys)\n",
        after="",
        caught_by=(f"{_NESTED_TESTS}::test_equal_keys_of_a_map_are_a_bad_row",),
    ),
    Mutant(
        name="a moment inside a value loses its zone",
        rule=_NESTED,
        path=_TEXT,
        before='        zone = "Z" if kind.tz is not None else ""\n',
        after='        zone = ""\n',
        caught_by=(f"{_NESTED_TESTS}::test_the_text_is_the_same",),
    ),
    Mutant(
        name="a control character breaks the JSON text",
        rule=_NESTED,
        path=_TEXT,
        before="for code in range(0x20)))\n",
        after="for code in range(0x1F)))\n",
        caught_by=(f"{_ENCODE_TESTS}::test_every_character_of_a_text_is_read_back",),
    ),
    Mutant(
        name="of an object with two equal names one value is lost",
        rule=_NESTED,
        path=_LOSS,
        before="    if len({name for name, _ in pairs}) == len(pairs):\n",
        after="    if pairs:\n",
        caught_by=(f"{_LOSS_TESTS}::test_one_text_among_many_is_found",),
    ),
    Mutant(
        name="a number that is no double is rounded",
        rule=_NESTED,
        path=_LOSS,
        before="    if Decimal(repr(float(text))) != Decimal(text):\n",
        after="    if float(repr(float(text))) != float(text):\n",
        caught_by=(f"{_LOSS_TESTS}::test_a_number_that_is_no_double_is_found",),
    ),
    Mutant(
        name="an escaped backslash before `u0000` is taken for a NUL",
        rule=_NESTED,
        path=_LOSS,
        before='_NUL: Final = r"(^|[^\\\\])(\\\\\\\\)*\\\\u0000"\n',
        after='_NUL: Final = r"\\\\u0000"\n',
        caught_by=(f"{_LOSS_TESTS}::test_a_nul_is_found_where_its_escape_is_one",),
    ),
    Mutant(
        name="a record of Avro may be longer than its schema",
        rule="docs/reference/formats.md, Avro",
        path="connectors/formats/avro/cursor.py",
        before="for row in np.flatnonzero(left).tolist():",
        after="for row in []:",
        caught_by=("tests/connectors/formats/avro/test_avro_hostile.py::test_each_fault_is_named",),
    ),
    Mutant(
        name="a record of Avro may end in the middle of a number",
        rule="docs/reference/formats.md, Avro",
        path="connectors/formats/avro/cursor.py",
        before="        behind = self._at[rows] > self._end[rows]",
        after="        behind = self._at[rows] > self._parked",
        caught_by=("tests/connectors/formats/avro/test_avro_hostile.py::test_each_fault_is_named",),
    ),
    Mutant(
        name="a decimal of Avro may have any number of digits",
        rule="docs/reference/formats.md, Avro",
        path="connectors/formats/avro/unscaled.py",
        before="wrong = _exceeds(low, high, 10**kind.precision) | _is_cut_off(cursor, start, end, high)",
        after="wrong = _is_cut_off(cursor, start, end, high)",
        caught_by=("tests/connectors/formats/avro/test_avro_hostile.py::test_each_fault_is_named",),
    ),
    Mutant(
        name="a decimal of Avro is read by its last 16 bytes",
        rule="docs/reference/formats.md, Avro",
        path="connectors/formats/avro/unscaled.py",
        before="wrong = _exceeds(low, high, 10**kind.precision) | _is_cut_off(cursor, start, end, high)",
        after="wrong = _exceeds(low, high, 10**kind.precision)",
        caught_by=("tests/connectors/formats/avro/test_avro_hostile.py::test_a_decimal_of_ten_thousand_digits",),
    ),
    Mutant(
        name="two logical types of Avro match whatever they are",
        rule="docs/reference/formats.md, Avro",
        path="connectors/formats/avro/resolution.py",
        before="if before and after and (before, written.scale) != (after, read.scale):",
        after="if False:",
        caught_by=(
            "tests/connectors/formats/avro/test_avro_resolution.py::test_types_that_do_not_match_are_refused_with_the_place",
        ),
    ),
    Mutant(
        name="an earlier entry of an Avro map hides a later one of its key",
        rule="docs/reference/formats.md, Avro",
        path="connectors/formats/avro/nested.py",
        before="if kept is not None:",
        after="if False:",
        caught_by=(
            "tests/connectors/formats/avro/test_avro_hostile.py::test_of_two_equal_keys_of_a_map_the_later_counts",
        ),
    ),
    Mutant(
        name="nanoseconds of Avro are cut off unasked",
        rule="docs/reference/formats.md, Avro",
        path="connectors/formats/avro/resolution.py",
        before="1 if self._truncate else 1_000)",
        after="1)",
        caught_by=("tests/connectors/formats/avro/test_avro_hostile.py::test_nanoseconds",),
    ),
    Mutant(
        name="an Avro record of an unknown schema is read by the reader's",
        rule="docs/reference/formats.md, Avro",
        path="connectors/formats/avro/avro_format.py",
        before="            chosen = marked & (keys == np.uint64(key))\n",
        after="            chosen = marked & (keys == np.uint64(key))\n"
        "            writer = replace(writer, schema=parsed(self.reader)) if isinstance(writer.schema, str) else writer\n",
        caught_by=(
            "tests/connectors/formats/avro/test_avro_compliance.py::TestSingleObjectAvro::test_each_bad_value_is_named_and_no_other",
        ),
    ),
    Mutant(
        name="a Protobuf record may end in the middle of a field",
        rule="docs/reference/formats.md, Bad Protobuf records",
        path="connectors/formats/protobuf/wire.py",
        before="(walk.ENDS, (following > end) | (is_bytes",
        after="(walk.ENDS, (is_bytes",
        caught_by=("tests/connectors/formats/protobuf/test_protobuf_hostile.py::test_each_fault_is_named",),
    ),
    Mutant(
        name="one long Protobuf record may end in the middle of a field",
        rule="docs/reference/formats.md, Bad Protobuf records",
        path="connectors/formats/protobuf/walk.py",
        before="        if at > len(data):\n            raise _BadError(ENDS)\n",
        after="",
        caught_by=("tests/connectors/formats/protobuf/test_protobuf_hostile.py::test_each_fault_is_named",),
    ),
    Mutant(
        name="a Protobuf field of another type is absent",
        rule="docs/reference/formats.md, Bad Protobuf records",
        path="connectors/formats/protobuf/message.py",
        before='    faults.add(tokens.row[wrong], f"{what}: not written',
        after='    faults.add(tokens.row[:0], f"{what}: not written',
        caught_by=("tests/connectors/formats/protobuf/test_protobuf_hostile.py::test_each_fault_is_named",),
    ),
    Mutant(
        name="bits of a Protobuf number are cut off",
        rule="docs/reference/formats.md, Bad Protobuf records",
        path="connectors/formats/protobuf/values.py",
        before="    faults.check(tokens.row, wrong, reason)\n    kept",
        after="    kept",
        caught_by=("tests/connectors/formats/protobuf/test_protobuf_hostile.py::test_each_fault_is_named",),
    ),
    Mutant(
        name="a number without a name is a neighbour of an enum",
        rule="docs/reference/formats.md, Bad Protobuf records",
        path="connectors/formats/protobuf/values.py",
        before='        faults.check(tokens.row, known[at] != numbers, f"{self.what}: a number without a name")\n',
        after="",
        caught_by=("tests/connectors/formats/protobuf/test_protobuf_hostile.py::test_each_fault_is_named",),
    ),
    Mutant(
        name="the fields of a Protobuf message have no bound",
        rule="docs/reference/formats.md, Bad Protobuf records",
        path="connectors/formats/protobuf/wire.py",
        before="        if steps == walk.MOST_FIELDS:",
        after="        if steps == -1:",
        caught_by=(
            "tests/connectors/formats/protobuf/test_protobuf_hostile.py::test_the_fields_of_a_message_are_bounded",
        ),
    ),
    Mutant(
        name="an earlier member of a Protobuf oneof stays",
        rule="docs/reference/formats.md, Protobuf",
        path="connectors/formats/protobuf/message.py",
        before="    if not (found > 1).any():",
        after="    if True:",
        caught_by=(
            "tests/connectors/formats/protobuf/test_protobuf_values.py::test_the_last_member_of_a_oneof_counts_and_messages_are_merged",
        ),
    ),
    Mutant(
        name="of two parts of a Protobuf message the later replaces the earlier",
        rule="docs/reference/formats.md, Protobuf",
        path="connectors/formats/protobuf/message.py",
        before="        if self.merges and len(present) < len(tokens):",
        after="        if False:",
        caught_by=(
            "tests/connectors/formats/protobuf/test_protobuf_values.py::test_the_last_member_of_a_oneof_counts_and_messages_are_merged",
        ),
    ),
    Mutant(
        name="nanoseconds of Protobuf are cut off unasked",
        rule="docs/reference/formats.md, Protobuf",
        path="connectors/formats/protobuf/well_known.py",
        before="        if not self.truncate:",
        after="        if False:",
        caught_by=("tests/connectors/formats/protobuf/test_protobuf_values.py::test_a_time_has_microseconds",),
    ),
    Mutant(
        name="Protobuf types match whatever they are",
        rule="docs/reference/formats.md, Protobuf in a schema registry",
        path="connectors/formats/protobuf/resolution.py",
        before="        if written != read and not any({written, read} <= alike for alike in _ALIKE):",
        after="        if False:",
        caught_by=(
            "tests/connectors/formats/protobuf/test_protobuf_resolution.py::test_types_that_are_not_are_refused_with_the_place",
        ),
    ),
    Mutant(
        name="a Protobuf record of another message is read as the reader's",
        rule="docs/reference/formats.md, Protobuf in a schema registry",
        path="connectors/formats/protobuf/protobuf_format.py",
        before="    if name != reader.message:",
        after="    if False:",
        caught_by=("tests/connectors/formats/protobuf/test_protobuf_registered.py::test_headers_of_confluents_client",),
    ),
    Mutant(
        name="an import of a registry's schema is written anywhere",
        rule="docs/reference/formats.md, Protobuf in a schema registry",
        path="connectors/formats/protobuf/compiler.py",
        before="    if not is_inside or len(name.encode()) > _LONGEST_NAME:",
        after="    if not parts:",
        caught_by=("tests/connectors/formats/protobuf/test_protobuf_registered.py::test_imports_over_several_levels",),
    ),
    Mutant(
        name="records are bad where the compiler of Protobuf does not run",
        rule="docs/reference/formats.md, Protobuf in a schema registry",
        path="connectors/formats/protobuf/compiler.py",
        before='    if not any(f"{name}:" in each for each in lines):',
        after="    if False:",
        caught_by=(
            "tests/connectors/formats/protobuf/test_protobuf_registered.py::test_no_record_is_bad_because_the_compiler_does_not_run",
        ),
    ),
    Mutant(
        name="a 0 that a Protobuf writer leaves out is NULL",
        rule="docs/reference/formats.md, Protobuf in a schema registry",
        path="connectors/formats/protobuf/resolution.py",
        before="not reader.has_presence or (not writer.has_presence and not _excludes_others(reader))",
        after="not reader.has_presence",
        caught_by=(
            "tests/connectors/formats/protobuf/test_protobuf_resolution.py::test_a_default_that_the_writer_does_not_write_is_not_null",
        ),
    ),
)
