"""Kafka as a source: ranges of offsets, ends of splits, and the client's settings."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_RANGES: Final = "connectors/kafka/ranges.py"
_POSITIONS: Final = "connectors/kafka/positions.py"
_SETTINGS: Final = "connectors/kafka/settings.py"
_RANGE_TESTS: Final = "tests/connectors/kafka/test_ranges.py"
_POSITION_TESTS: Final = "tests/connectors/kafka/test_positions.py"
_SETTING_TESTS: Final = "tests/connectors/kafka/test_settings.py"

MUTANTS: Final = (
    Mutant(
        name="records behind the end of a range are read with it",
        rule="R6",
        path=_RANGES,
        before="            if self.position > self._range.end:\n",
        after="            if self.position > self._range.end + 1:\n",
        caught_by=(f"{_RANGE_TESTS}::test_a_range_ends_before_its_end",),
    ),
    Mutant(
        name="the end of a partition is taken for the end of the range",
        rule="R6",
        path=_RANGES,
        before="""        self.position = max(self.position, offset_of(message))
        return False
""",
        after="""        self.position = self._range.end
        return False
""",
        caught_by=(f"{_RANGE_TESTS}::test_the_end_of_a_partition_before_the_end_of_the_range_is_not_its_end",),
    ),
    Mutant(
        name="the end of a partition is no end where its last offset is no record",
        rule="R6",
        path=_RANGES,
        before="""        self.position = max(self.position, offset_of(message))
        return False
""",
        after="        return False\n",
        caught_by=(f"{_RANGE_TESTS}::test_a_range_is_over_where_its_last_offset_is_no_record",),
    ),
    Mutant(
        name="a silence is taken for the end of a range",
        rule="R6",
        path=_RANGES,
        before="""        if self.is_over:
            return
""",
        after="""        self.position = self._range.end
        if self.is_over:
            return
""",
        caught_by=(f"{_RANGE_TESTS}::test_the_end_of_a_partition_before_the_end_of_the_range_is_not_its_end",),
    ),
    Mutant(
        name="what is left of another range is taken for this one's",
        rule="R6",
        path=_RANGES,
        before="        if found != self._range.split:\n",
        after="        if not found:\n",
        caught_by=(f"{_RANGE_TESTS}::test_what_is_left_of_another_range_is_an_error",),
    ),
    Mutant(
        name="a record that is delivered twice is read twice",
        rule="R6",
        path=_RANGES,
        before="        if offset_of(first) < position:\n",
        after="        if offset_of(first) < self._range.start:\n",
        caught_by=(f"{_RANGE_TESTS}::test_records_come_once_and_in_order",),
    ),
    Mutant(
        name="what retention has deleted is left out without permission",
        rule="docs/reference/sources.md",
        path=_RANGES,
        before="                if not skip_lost or not reading.skip_lost():\n",
        after="                if not reading.skip_lost():\n",
        caught_by=(f"{_RANGE_TESTS}::test_an_offset_that_is_gone_is_an_error_that_no_retry_cures",),
    ),
    Mutant(
        name="records are left out that retention still has",
        rule="docs/reference/sources.md",
        path=_RANGES,
        before="        self.position = lost_end\n",
        after="        self.position = lost_end + 1\n",
        caught_by=(f"{_RANGE_TESTS}::test_what_retention_has_deleted_is_left_out_only_where_that_is_allowed",),
    ),
    Mutant(
        name="of many ranges the last ones are not read",
        rule="R6",
        path=_RANGES,
        before="    for first in range(0, len(ranges), _AT_ONCE):\n",
        after="    for first in range(0, len(ranges) - _AT_ONCE // 2, _AT_ONCE):\n",
        caught_by=(f"{_RANGE_TESTS}::test_more_ranges_than_are_read_at_once_are_all_read",),
    ),
    Mutant(
        name="a range is planned past an open transaction",
        rule="R6",
        path=_POSITIONS,
        before='        committed = client.connection.isolation_level == "read_committed"\n',
        after='        committed = client.connection.isolation_level == ""\n',
        caught_by=(f"{_POSITION_TESTS}::test_r6_a_reader_of_committed_records_ends_before_an_open_transaction",),
    ),
    Mutant(
        name="records behind an open transaction look like no records",
        rule="docs/reference/sources.md, Open transactions",
        path=_POSITIONS,
        before="if end > ends[split]}\n",
        after="if end < ends[split]}\n",
        caught_by=(f"{_POSITION_TESTS}::test_what_lies_behind_an_open_transaction_is_told",),
    ),
    Mutant(
        name="a start from a moment begins past an open transaction",
        rule="R6",
        path=_POSITIONS,
        before="min(found[split], end) for",
        after="found[split] for",
        caught_by=(f"{_POSITION_TESTS}::test_a_moment_is_never_past_what_can_be_read",),
    ),
    Mutant(
        name="a start from a moment without records begins at the first record",
        rule="R6",
        path=_POSITIONS,
        before="split: end if found[split] < 0 else",
        after="split: 0 if found[split] < 0 else",
        caught_by=(f"{_POSITION_TESTS}::test_a_moment_is_never_past_what_can_be_read",),
    ),
    Mutant(
        name="an end that the leader has not told is made up",
        rule="R6",
        path=_POSITIONS,
        before="                if found[split] == OFFSET_INVALID:",
        after="                if found[split] is None:",
        caught_by=(f"{_POSITION_TESTS}::test_an_end_that_the_leader_has_not_told_is_not_made_up",),
    ),
    Mutant(
        name="a split whose leader changes is not asked again",
        rule="R6",
        path=_POSITIONS,
        before="                moving[split] = error\n",
        after="                moving.clear()\n",
        caught_by=(f"{_POSITION_TESTS}::test_a_split_that_changes_its_leader_is_asked_again_alone",),
    ),
    Mutant(
        name="a property of the user's makes a reader see aborted records",
        rule="docs/reference/sources.md",
        path=_SETTINGS,
        before="""            **dict(self.properties),
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.group_id,
            "isolation.level": self.isolation_level,
""",
        after="""            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.group_id,
            "isolation.level": self.isolation_level,
            **dict(self.properties),
""",
        caught_by=(f"{_SETTING_TESTS}::test_what_the_users_properties_cannot_take_from_a_consumer",),
    ),
    Mutant(
        name="a range that is gone is read from elsewhere",
        rule="H23",
        path=_SETTINGS,
        before='            "auto.offset.reset": "error",\n',
        after='            "auto.offset.reset": "earliest",\n',
        caught_by=(f"{_SETTING_TESTS}::test_settings_pass_through",),
    ),
    Mutant(
        name="a property that takes code is taken",
        rule="docs/how-to/security.md",
        path=_SETTINGS,
        before="        if _CALLBACK.search(name):\n",
        after="        if _CALLBACK.fullmatch(name):\n",
        caught_by=(f"{_SETTING_TESTS}::test_settings_that_are_not_the_users",),
    ),
    Mutant(
        name="a property that has a shell run a program is taken",
        rule="docs/how-to/security.md, Tokens, and clouds",
        path=_SETTINGS,
        before="""    r"|\\.cmd$"  #""",
        after="""    r""  #""",
        caught_by=(f"{_SETTING_TESTS}::test_settings_of_a_sink_that_take_code",),
    ),
    Mutant(
        name="a token is fetched in plain text",
        rule="docs/how-to/security.md, Tokens, and clouds",
        path="connectors/api/tls.py",
        before='    if parts.scheme.lower() != "https" or not parts.hostname:\n',
        after="    if not parts.hostname:\n",
        caught_by=(f"{_SETTING_TESTS}::test_a_token_is_not_fetched_in_plain_text",),
    ),
    Mutant(
        name="a password in a message of the client is shown",
        rule="docs/how-to/security.md, Secrets",
        path=_SETTINGS,
        before="            if value and _SECRET.search(name):\n",
        after="            if value and _SECRET.fullmatch(name):\n",
        caught_by=(f"{_SETTING_TESTS}::test_no_repr_shows_a_property",),
    ),
)
