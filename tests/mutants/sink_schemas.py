"""Messages with schemas: bytes that each reader reads as the row, and a schema that a registry has before any task."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PIECES: Final = "connectors/formats/avro/pieces.py"
_STEPS: Final = "connectors/formats/avro/write_steps.py"
_NESTED: Final = "connectors/formats/avro/write_nested.py"
_DERIVE: Final = "connectors/formats/avro/derive.py"
_MATCHING: Final = "connectors/formats/avro/matching.py"
_REGISTRATION: Final = "connectors/schema_registry/registration.py"
_SINK: Final = "connectors/kafka/sink/sink.py"
_AVRO_TESTS: Final = "tests/connectors/formats/avro/test_avro_rows.py::test_"
_REGISTRATION_TESTS: Final = "tests/connectors/schema_registry/test_registration.py::test_"
_MESSAGE_TESTS: Final = "tests/connectors/kafka/test_message_schemas.py::test_"
_PAGE: Final = "docs/reference/sinks.md, Messages with a schema"

MUTANTS: Final = (
    Mutant(
        name="a number of several bytes ends one byte early",
        rule=_PAGE,
        path=_PIECES,
        before="        more = left > _PAYLOAD\n",
        after="        more = left > _PAYLOAD + 1\n",
        caught_by=(f"{_AVRO_TESTS}each_type_holds_its_values",),
    ),
    Mutant(
        name="a decimal gets a byte too few at the bound of its bytes",
        rule=_PAGE,
        path=_PIECES,
        before='    lower = np.searchsorted(_BOUNDS, low, side="right") + 1\n',
        after='    lower = np.searchsorted(_BOUNDS, low, side="left") + 1\n',
        caught_by=(f"{_AVRO_TESTS}a_decimal_has_as_few_bytes_as_its_number_needs",),
    ),
    Mutant(
        name="the bytes of a slice of rows begin at the first row of all",
        rule=_PAGE,
        path=_PIECES,
        before="    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)\n",
        after="    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1)\n",
        caught_by=(f"{_AVRO_TESTS}a_slice_of_lists_of_fixed_has_the_bytes_of_its_rows",),
    ),
    Mutant(
        name="NULL is written where the schema does not take it",
        rule=_PAGE,
        path=_STEPS,
        before='        if values.null_count:\n            raise pa.ArrowInvalid(f"{self.what}: NULL',
        after='        if values.null_count == -1:\n            raise pa.ArrowInvalid(f"{self.what}: NULL',
        caught_by=(f"{_AVRO_TESTS}a_value_that_the_schema_cannot_hold_is_refused",),
    ),
    Mutant(
        name="decimals of a second that the schema does not hold are cut off",
        rule=_PAGE,
        path=_STEPS,
        before="            if (found % self.divide).any():\n",
        after="            if (found % self.divide < 0).any():\n",
        caught_by=(f"{_AVRO_TESTS}a_value_that_the_schema_cannot_hold_is_refused",),
    ),
    Mutant(
        name="a number out of range is written",
        rule=_PAGE,
        path=_STEPS,
        before="(found > self.high // self.multiply)",
        after="(found > self.high)",
        caught_by=(f"{_AVRO_TESTS}a_value_that_the_schema_cannot_hold_is_refused",),
    ),
    Mutant(
        name="a map with two equal keys is written",
        rule=_PAGE,
        path=_NESTED,
        before="        if has_repeats(values, values.keys):\n",
        after="        if has_repeats(values, values.keys) and not len(values):\n",
        caught_by=(f"{_AVRO_TESTS}a_value_that_the_schema_cannot_hold_is_refused",),
    ),
    Mutant(
        name="a TIMESTAMP is written as local time",
        rule=_PAGE,
        path=_MATCHING,
        before="(kind.tz is None) == is_local",
        after="(kind.tz is None or True)",
        caught_by=(f"{_AVRO_TESTS}a_column_that_a_schema_cannot_hold_is_refused_before_any_row",),
    ),
    Mutant(
        name="a column without a field is left out",
        rule=_PAGE,
        path=_MATCHING,
        before="        self.problems += differences(node, names, inside)\n",
        after='        self.problems += [each for each in differences(node, names, inside) if each.startswith("there")]\n',
        caught_by=(f"{_AVRO_TESTS}a_given_schema_has_the_columns_of_the_rows_and_no_others",),
    ),
    Mutant(
        name="records in two columns get one name",
        rule=_PAGE,
        path=_DERIVE,
        before='f"{name}.{column.name}"',
        after='f"Inner.{column.name}"',
        caught_by=(f"{_AVRO_TESTS}records_in_columns_have_names_of_their_own",),
    ),
    Mutant(
        name="a message names another schema than its own",
        rule=_PAGE,
        path="connectors/schema_registry/schema_rows.py",
        before='b"\\0" + used.id.to_bytes(4)',
        after='b"\\0" + used.id.to_bytes(4, "little")',
        caught_by=(f"{_AVRO_TESTS}the_header_is_in_front_of_each_value",),
    ),
    Mutant(
        name="a tombstone's columns must fit the schema",
        rule=_PAGE,
        path="connectors/kafka/sink/messages.py",
        before="        if self.layout.deleted is None:\n            return self._encoded(",
        after="        if self.layout.deleted is not None:\n            return self._encoded(",
        caught_by=(f"{_MESSAGE_TESTS}a_tombstone_has_a_key_and_its_other_columns_need_not_fit_the_schema",),
    ),
    Mutant(
        name="an incompatible schema is an outage",
        rule=_PAGE,
        path=_REGISTRATION,
        before="        if status == _INCOMPATIBLE:\n",
        after="        if status == _INCOMPATIBLE and not said:\n",
        caught_by=(f"{_REGISTRATION_TESTS}a_refusal_of_the_registry_stops_the_pipeline",),
    ),
    Mutant(
        name="an outage of the registry stops the pipeline",
        rule=_PAGE,
        path=_REGISTRATION,
        before='            raise SinkUnavailableError(f"sink {sink}: {error.message}", remedy=error.remedy) from None\n',
        after='            raise TargetError(f"sink {sink}: {error.message}", remedy=error.remedy) from None\n',
        caught_by=(f"{_REGISTRATION_TESTS}a_registry_that_is_away_is_an_outage",),
    ),
    Mutant(
        name="a dry run registers",
        rule=_PAGE,
        path=_REGISTRATION,
        before="                return _checked_id(client.lookup_schema(",
        after="                return _checked_id(client.register_schema_full_response(",
        caught_by=(f"{_REGISTRATION_TESTS}a_dry_run_registers_nothing",),
    ),
    Mutant(
        name="`register: false` registers",
        rule=_PAGE,
        path=_REGISTRATION,
        before="            if self.register:\n",
        after="            if self.register is not None:\n",
        caught_by=(f"{_REGISTRATION_TESTS}without_a_right_to_register_the_schema_is_looked_up",),
    ),
    Mutant(
        name="a start without the sink writes other rows with the schema of before",
        rule="H32",
        path="connectors/schema_registry/schema_rows.py",
        before="self.described(part, schema).text == used.text and",
        after='self.described(part, schema).text != "" and',
        caught_by=(f"{_MESSAGE_TESTS}h32_a_start_without_the_sink_waits_if_the_schema_is_another_one",),
    ),
    Mutant(
        name="tasks get the login of the registry",
        rule="docs/how-to/security.md",
        path=_SINK,
        before="encoders=encoders, formats=Formats())",
        after="encoders=encoders)",
        caught_by=(f"{_MESSAGE_TESTS}h32_a_start_without_the_sink_writes_with_the_schema_of_the_start_before",),
    ),
)
