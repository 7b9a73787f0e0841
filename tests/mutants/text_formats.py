"""Keys with a format, JSON with a registry, in an envelope and with maps, and CSV: each record is exact, or bad."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_FORMATS: Final = "connectors/formats"
_TESTS: Final = "tests/connectors/formats"
_KEYS: Final = f"{_TESTS}/test_key_columns.py::test_"
_MAPS: Final = f"{_TESTS}/test_json_maps.py::test_"
_CSV: Final = f"{_TESTS}/csv/test_csv.py::test_"
_FINE: Final = f"{_TESTS}/test_fine_numbers.py::test_"
_PAGE: Final = "docs/reference/formats.md"

MUTANTS: Final = (
    Mutant(
        name="schemas of keys and values share their names",
        rule="H35",
        path=f"{_FORMATS}/key_columns.py",
        before="        schemas = {_NAME + name: each for name, each in decoded.schemas.items()}\n",
        after="        schemas = dict(decoded.schemas)\n",
        caught_by=(f"{_KEYS}h35_schemas_of_keys_have_names_of_their_own",),
    ),
    Mutant(
        name="pinned schemas of keys are dropped",
        rule="H35",
        path=f"{_FORMATS}/key_columns.py",
        before="keys=_pinned(self.keys, of_keys))",
        after="keys=self.keys)",
        caught_by=(f"{_KEYS}h35_only_one_of_both_names_schemas",),
    ),
    Mutant(
        name="rows of values stay beside other keys where a key is bad",
        rule=f"{_PAGE}, Keys",
        path=f"{_FORMATS}/key_columns.py",
        before="            key_rows = key_rows.take(pa.array((np.cumsum(has_row) - 1)[records]))\n",
        after="            key_rows = key_rows.slice(0, len(rows))\n",
        caught_by=(f"{_KEYS}each_record_is_judged_by_both",),
    ),
    Mutant(
        name="a JSON format with a registry drops pinned schemas",
        rule="H35",
        path=f"{_FORMATS}/registered_json.py",
        before="        return replace(self, pinned=known)\n",
        after="        return self\n",
        caught_by=(f"{_TESTS}/test_registered_json.py::test_h35_a_pinned_name_has_its_schema_or_the_task_fails",),
    ),
    Mutant(
        name="a Decimal without a scale has the scale of the column",
        rule=f"{_PAGE}, JSON in Connect's envelope",
        path=f"{_FORMATS}/connect_readings.py",
        before='    if written.name == "Decimal" and pt.is_decimal(target) and written.scale is None:\n',
        after="    if False:\n",
        caught_by=(f"{_TESTS}/test_connect_json.py::test_bad_records_name_the_field",),
    ),
    Mutant(
        name="an array of entries becomes a map",
        rule=f"{_PAGE}, JSON",
        path=f"{_FORMATS}/json_maps.py",
        before="    if (tokens.kind[found] != OPEN).any():\n",
        after="    if False:\n",
        caught_by=(f"{_MAPS}reasons",),
    ),
    Mutant(
        name="a quote that does not end reaches into the next record of CSV",
        rule=f"{_PAGE}, CSV",
        path=f"{_FORMATS}/csv/fields.py",
        before="        plain = (np.searchsorted(quotes, marks) - before[owner]) % 2 == 0\n",
        after="        plain = np.searchsorted(quotes, marks) % 2 == 0\n",
        caught_by=(f"{_CSV}one_bad_row_spoils_no_other", f"{_CSV}any_bytes_are_read_by_the_rfc_or_bad"),
    ),
    Mutant(
        name="decimals of CSV overflow silently",
        rule=f"{_PAGE}, CSV",
        path=f"{_FORMATS}/casting.py",
        before="values.cast(pa.decimal256(_DIGITS, kind.scale)).cast(kind)",
        after="values.cast(kind)",
        caught_by=(f"{_CSV}a_text_fits_exactly_or_is_bad", f"{_FINE}a_decimal_that_is_scaled_up_never_overflows"),
    ),
    Mutant(
        name="a number close to zero becomes 0 in JSON",
        rule=f"{_PAGE}, JSON",
        path=f"{_FORMATS}/fine_numbers.py",
        before="        if _has_fine(document, kind):\n            raise ValueError(TOO_FINE)\n",
        after="",
        caught_by=(f"{_FINE}a_number_that_arrow_makes_zero_is_bad",),
    ),
)
