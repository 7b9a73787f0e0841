"""Rows that a table refuses: found by halving, and dead letters in the transaction that applies a log (docs/reference/sinks.md)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_REFUSING: Final = "connectors/sql/log/refusing.py"
_APPLY: Final = "connectors/sql/log/apply.py"
_SIEVE: Final = "connectors/row_bisector.py"
_DIRECT: Final = "connectors/sql/sqlite/direct_writer.py"
_RULE: Final = "docs/reference/sinks.md, Rows that a sink refuses"
_TESTS: Final = "tests/connectors/test_refused_by_a_log.py::"
_LETTERS: Final = (f"{_TESTS}test_a_refused_row_is_a_letter_and_the_others_are_there",)

MUTANTS: Final = (
    Mutant(
        name="rows beside a refused one are applied twice",
        rule=_RULE,
        path=_REFUSING,
        before="        with savepoint(self.store), bad_rows(",
        after="        with bad_rows(",
        caught_by=_LETTERS,
    ),
    Mutant(
        name="a row that is refused when a log is applied is no dead letter",
        rule=_RULE,
        path=_REFUSING,
        before="        if found := self.bisector.letters[stored:]:",
        after="        if False:",
        caught_by=_LETTERS,
    ),
    Mutant(
        name="the checkpoint of a dead letter is another one",
        rule=_RULE,
        path=_REFUSING,
        before="pa.Table.from_batches(found), self.checkpoint_id).select(",
        after="pa.Table.from_batches(found), 0).select(",
        caught_by=_LETTERS,
    ),
    Mutant(
        name="a log is applied once more with the rows that are refused",
        rule=_RULE,
        path=_APPLY,
        before="    outcomes = _apply(store, storage, target, share, sifting)",
        after="    outcomes = _apply(store, storage, target, share, put)",
        caught_by=_LETTERS,
    ),
    Mutant(
        name="an outage while a log is applied makes dead letters",
        rule=_RULE,
        path=_REFUSING,
        before="        if isinstance(reason, BadRowError):\n            raise reason from error\n        raise\n",
        after="        raise BadRowError(reason.message, remedy=reason.remedy) from error\n",
        caught_by=("tests/connectors/sql/test_log_played.py::test_a_lock_or_an_outage_makes_no_dead_letter",),
    ),
    Mutant(
        name="any number of rows may be refused when a log is applied",
        rule=_RULE,
        path=_SIEVE,
        before="        if len(self.letters) == self.most:",
        after="        if False:",
        caught_by=(f"{_TESTS}test_too_many_stop_it_and_are_applied_after_the_change",),
    ),
    Mutant(
        name="rows beside a refused one are refused with it",
        rule=_RULE,
        path=_SIEVE,
        before="            if batch.num_rows == 1:",
        after="            if batch.num_rows <= 2:",
        caught_by=_LETTERS,
    ),
    Mutant(
        name="rows behind a refused one are dropped",
        rule=_RULE,
        path=_SIEVE,
        before="            for start, end in ((0, half), (half, batch.num_rows)):",
        after="            for start, end in ((0, half), (half, batch.num_rows - 1)):",
        caught_by=_LETTERS,
    ),
    Mutant(
        name="rows that are only tried out are committed",
        rule="docs/explanation/protocol.md, At-least-once",
        path=_DIRECT,
        before='            finally:\n                store.execute("ROLLBACK")',
        after='            finally:\n                store.execute("COMMIT")',
        caught_by=(
            "tests/connectors/sql/sqlite/test_compliance.py::TestSqliteLog::test_batches_written_whole_at_least_once",
        ),
    ),
)
