"""A log that is applied to a database: slots, the claim, connections that do not let go, and merges (R2, R3, R6, R7)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_APPLY: Final = "connectors/sql/log/apply.py"
_LEDGER: Final = "connectors/sql/log/ledger.py"
_HOLDER: Final = "connectors/sql/log/ledger.py"
_SLOTS: Final = "connectors/sql/slots.py"
_MYSQL: Final = "connectors/sql/mysql/store.py"
_POSTGRES: Final = "connectors/sql/postgres/store.py"
_SQLITE: Final = "connectors/sql/sqlite/store.py"
_TESTS: Final = "tests/connectors/sql/test_log_played.py::"
_FILE: Final = "tests/connectors/sql/sqlite/test_sink.py::"
_TWO: Final = "tests/twophase/test_two_logs.py::"
_SHARE: Final = (f"{_TESTS}test_a_share_is_one_transaction_under_the_claim_and_its_slot",)
_MOVED: Final = (f"{_TESTS}test_a_slot_that_has_moved_applies_nothing_again",)
_SHARED_OUT: Final = (f"{_TESTS}test_slots_are_shared_out_under_the_claim_and_no_other_stays",)
_FENCED: Final = (f"{_TESTS}test_a_driver_that_lost_the_claim_shares_out_and_raises_nothing",)
_GIVEN_UP: Final = (f"{_TESTS}test_segments_are_given_up_while_nobody_can_apply_them",)
_NOT_MERGED: Final = (f"{_TESTS}test_rows_that_are_not_merged_are_noticed",)
_REPLACED: Final = (f"{_TESTS}test_mysql_replaces_rows_only_where_nobody_could_tell",)
_KEPT: Final = (f"{_TESTS}test_a_connection_is_replaced_after_an_error_and_asked_after_a_pause",)

MUTANTS: Final = (
    Mutant(
        name="a log is applied without the lock of the claim row",
        rule="H28",
        path=_APPLY,
        before="target.sink, lock=store.for_share)",
        after="target.sink)",
        caught_by=_SHARE,
    ),
    Mutant(
        name="a log is applied under another driver's claim",
        rule="H28",
        path=_APPLY,
        before="        check_applier(target.sink, owner, share.incarnation, share.epoch)\n",
        after="",
        caught_by=(f"{_TESTS}test_h28_nothing_is_applied_under_another_claim",),
    ),
    Mutant(
        name="a share is applied once more where its slot has moved",
        rule="R7",
        path=_APPLY,
        before="        if applied is not None and applied >= share.checkpoint_id:",
        after="        if applied is not None and applied > share.checkpoint_id:",
        caught_by=(*_MOVED, f"{_FILE}test_a_second_commit_adds_nothing"),
    ),
    Mutant(
        name="a slot that a later number of slots has no use for is taken for one that lacks its share",
        rule="H32",
        path=_APPLY,
        before="        if applied is None:\n            applied = find_forgotten(",
        after="        if False:\n            applied = find_forgotten(",
        caught_by=(f"{_TWO}test_another_number_of_slots_while_another_sink_holds_committed_back",),
    ),
    Mutant(
        name="a slot that is not there is taken for one that stands where the sink does",
        rule="H32",
        path=_SLOTS,
        before="    return found if found is not None and found >= checkpoint_id else None\n",
        after="    return found\n",
        caught_by=("tests/connectors/sql/sqlite/test_sink.py::test_a_slot_that_somebody_has_deleted_applies_nothing",),
    ),
    Mutant(
        name="a slot moves over checkpoints that it had counted",
        rule="H34",
        path="connectors/log/ledger.py",
        before="        return applied is not None and least <= applied < self.checkpoint_id\n",
        after="        return applied is not None and applied < self.checkpoint_id\n",
        caught_by=(
            "tests/connectors/kafka/test_ledger.py::test_h34_a_marker_moves_over_at_least_once_checkpoints",
            f"{_TESTS}test_a_slot_that_is_behind_applies_nothing",
        ),
    ),
    Mutant(
        name="a share is applied over a checkpoint that its slot lacks",
        rule="R10",
        path=_APPLY,
        before="        if not share.is_next(applied):\n            raise gap(target.sink, share, applied)\n",
        after="",
        caught_by=(f"{_TESTS}test_a_slot_that_is_behind_applies_nothing",),
    ),
    Mutant(
        name="a slot does not move with its rows",
        rule="R7",
        path=_APPLY,
        before="        move_slot(store, share.incarnation, sink, share.slot, share.checkpoint_id)\n",
        after="",
        caught_by=_SHARE,
    ),
    Mutant(
        name="a share is applied without witnesses",
        rule="R7",
        path=_APPLY,
        before="            tables.insert_witness(store, each.transaction, each.rows)\n",
        after="            pass\n",
        caught_by=_SHARE,
    ),
    Mutant(
        name="a share with a segment that is missing is applied in part",
        rule="R7",
        path=_APPLY,
        before="        if missing := missing_segments(storage, share):",
        after="        if missing := missing_segments(storage, share)[:0]:",
        caught_by=(f"{_FILE}test_a_missing_segment_is_lost_and_nothing_is_applied",),
    ),
    Mutant(
        name="other transactions of an applied checkpoint pass for applied",
        rule="R2",
        path=_APPLY,
        before="    return [already if each.transaction in seen else lost for each in share.committables]",
        after="    return [already for each in share.committables]",
        caught_by=_MOVED,
    ),
    Mutant(
        name="other rows pass for the newest checkpoint that a log has applied",
        rule="H33",
        path=_APPLY,
        before="    if not is_newest and not tables.has_witness(store, share.incarnation, sink, share.checkpoint_id):",
        after="    if not tables.has_witness(store, share.incarnation, sink, share.checkpoint_id):",
        caught_by=_MOVED,
    ),
    Mutant(
        name="what was applied and pruned is taken for lost",
        rule="R7",
        path=_APPLY,
        before="    if not is_newest and not tables.has_witness(store, share.incarnation, sink, share.checkpoint_id):",
        after="    if False:",
        caught_by=_MOVED,
    ),
    Mutant(
        name="a slot is read without its lock",
        rule="R7",
        path=_SLOTS,
        before='WHERE {_KEY} {server.for_update}"',
        after='WHERE {_KEY}"',
        caught_by=_SHARE,
    ),
    Mutant(
        name="a slot that is elsewhere is shared out",
        rule="R2",
        path=_SLOTS,
        before="        elif applied != checkpoint_id:",
        after="        elif False:",
        caught_by=(f"{_TESTS}test_a_slot_that_is_elsewhere_stops_before_anything_is_decided",),
    ),
    Mutant(
        name="slots that nobody uses any more stay",
        rule="R7",
        path=_SLOTS,
        before='    server.execute("DELETE FROM eos_slot WHERE incarnation = %s AND sink = %s AND slot >= %s", '
        "incarnation, sink, slots)\n",
        after="",
        caught_by=_SHARED_OUT,
    ),
    Mutant(
        name="slots are raised that are ahead already",
        rule="R7",
        path=_SLOTS,
        before=' AND checkpoint_id < %s"\n    server.execute(statement, checkpoint_id, incarnation, sink, checkpoint_id)',
        after='"\n    server.execute(statement, checkpoint_id, incarnation, sink)',
        caught_by=(
            "tests/connectors/sql/test_counts_played.py::test_a_start_from_a_savepoint_raises_the_count_as_its_owner_only",
        ),
    ),
    Mutant(
        name="slots are shared out by a driver that lost the claim",
        rule="R3",
        path=_LEDGER,
        before="            claims.hold_claim(store, self._pipeline, self._target.name, owner)\n            share_out",
        after="            share_out",
        caught_by=_FENCED,
    ),
    Mutant(
        name="slots are raised by a driver that lost the claim",
        rule="R3",
        path=_LEDGER,
        before="            claims.hold_claim(store, self._pipeline, self._target.name, owner)\n            check_count(",
        after="            check_count(",
        caught_by=_FENCED,
    ),
    Mutant(
        name="segments are given up while a slot may apply them",
        rule="R8",
        path=_LEDGER,
        before="                hold_slot(store, incarnation, self._sink, slot)  # nobody applies one of them meanwhile",
        after="                pass",
        caught_by=_GIVEN_UP,
    ),
    Mutant(
        name="segments that are applied are given up",
        rule="R8",
        path=_LEDGER,
        before="            if not applied:\n                delete(transactions)",
        after="            delete(transactions)",
        caught_by=_GIVEN_UP,
    ),
    Mutant(
        name="a log goes to a table that two-phase commit may hold locks in",
        rule="R2",
        path=_LEDGER,
        before="            self._check_variant(store)\n",
        after="",
        caught_by=(f"{_TESTS}test_a_log_is_refused_where_two_phase_commit_may_have_left_something",),
    ),
    Mutant(
        name="a connection that applies a log cannot be found by who has to end it",
        rule="H28",
        path=_HOLDER,
        before="                store.mark(self._mark, self._member)\n",
        after="",
        caught_by=(f"{_TESTS}test_connections_are_marked_before_they_hold_anything",),
    ),
    Mutant(
        name="a start waits for a frozen applier for ever",
        rule="R3",
        path=_HOLDER,
        before="            ended = store.end(self._mark, self._member)\n",
        after="            ended = 0\n",
        caught_by=(f"{_TESTS}test_a_start_ends_the_applier_that_does_not_let_go",),
    ),
    Mutant(
        name="a start waits for a frozen claim for ever",
        rule="R3",
        path=_HOLDER,
        before="            ended += self._end_others(store) if self._end_others is not None else 0\n",
        after="",
        caught_by=(f"{_TESTS}test_a_start_ends_the_applier_that_does_not_let_go",),
    ),
    Mutant(
        name="a driver that has the claim ends other appliers",
        rule="R3",
        path=_HOLDER,
        before="                if error.lock_wait and starting:",
        after="                if error.lock_wait:",
        caught_by=(f"{_TESTS}test_a_start_ends_the_applier_that_does_not_let_go",),
    ),
    Mutant(
        name="a connection is used further after an error",
        rule="R7",
        path="connectors/sql/reconnecting.py",
        before="            if not done:\n                self.close()",
        after="            if done:\n                pass",
        caught_by=_KEPT,
    ),
    Mutant(
        name="rows that PostgreSQL does not merge are not missed",
        rule="docs/reference/sinks.md",
        path=_POSTGRES,
        before="    if merged != rows:",
        after="    if False:",
        caught_by=_NOT_MERGED,
    ),
    Mutant(
        name="keys that PostgreSQL does not delete are not missed",
        rule="docs/reference/sinks.md",
        path=_POSTGRES,
        before="        _check_count(keys.num_rows - left, keys.num_rows)\n",
        after="",
        caught_by=_NOT_MERGED,
    ),
    Mutant(
        name="rows that MySQL alters while it merges them pass",
        rule="docs/reference/sinks.md",
        path=_MYSQL,
        before="        if faults := refusals(self.warnings()):",
        after="        if faults := refusals(()):",
        caught_by=_NOT_MERGED,
    ),
    Mutant(
        name="MySQL merges into the row of another key where an index is new",
        rule="H15",
        path=_MYSQL,
        before="        if problems := merge_problems(target, key):",
        after="        if problems := merge_problems(target, key)[:0]:",
        caught_by=(f"{_TESTS}test_an_index_that_is_new_stops_a_merge",),
    ),
    Mutant(
        name="MySQL's indexes are looked at while a DDL may still come",
        rule="H15",
        path=_MYSQL,
        before='        self.execute(f"SELECT NULL FROM {read_target(self, table).quoted} LIMIT 0")  # no DDL from here on\n',
        after="",
        caught_by=(f"{_TESTS}test_an_index_that_is_new_stops_a_merge",),
    ),
    Mutant(
        name="MySQL replaces rows though triggers would see it",
        rule="docs/reference/sinks.md",
        path="connectors/sql/mysql/store.py",
        before='        and not _has(session, target, "TRIGGERS", "EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s")\n',
        after="",
        caught_by=_REPLACED,
    ),
    Mutant(
        name="MySQL replaces rows where triggers may be hidden from the user",
        rule="docs/reference/sinks.md",
        path="connectors/sql/mysql/store.py",
        before='frozenset({"DELETE", "INSERT", "TRIGGER"})',
        after='frozenset({"DELETE", "INSERT"})',
        caught_by=_REPLACED,
    ),
    Mutant(
        name="foreign keys stay unchecked on a connection that replaced rows",
        rule="docs/reference/sinks.md",
        path="connectors/sql/mysql/store.py",
        before='        session.execute("SET SESSION foreign_key_checks = 1")\n',
        after="        pass\n",
        caught_by=_REPLACED,
    ),
    Mutant(
        name="a merge adds the rows whose keys are to go",
        rule="H16",
        path="connectors/sql/log/merging.py",
        before="    return batch.filter(gone).select(list(key)), batch.filter(pc.invert(gone)).select(names)",
        after="    return batch.filter(gone).select(list(key)), batch.select(names)",
        caught_by=(f"{_TESTS}test_rows_are_merged_and_keys_go",),
    ),
    Mutant(
        name="a merge leaves a row that is there as it is",
        rule="H16",
        path="connectors/sql/log/merging.py",
        before="    return f\"ON CONFLICT ({', '.join(quote(name) for name in key)}) DO UPDATE SET {sets}\"",
        after='    return f"ON CONFLICT ({\', \'.join(quote(name) for name in key)}) DO NOTHING" if sets else ""',
        caught_by=(
            "tests/connectors/sql/sqlite/test_compliance.py::TestSqliteUpsert::test_a_later_checkpoint_takes_the_place_of_rows",
        ),
    ),
    Mutant(
        name="a conflict clause of a SQLite table drops rows",
        rule="docs/reference/sinks.md",
        path=_SQLITE,
        before="INSERT OR ABORT INTO",
        after="INSERT INTO",
        caught_by=(f"{_FILE}test_no_conflict_clause_of_the_table_swallows_rows",),
    ),
    Mutant(
        name="rows that a trigger of SQLite leaves out are not missed",
        rule="docs/reference/sinks.md",
        path=_SQLITE,
        before="        if stored != batch.num_rows:",
        after="        if False:",
        caught_by=(f"{_FILE}test_a_trigger_that_drops_rows_is_noticed",),
    ),
    Mutant(
        name="a power cut undoes a commit to SQLite whose segments are deleted",
        rule="R6",
        path="connectors/sql/sqlite/database.py",
        before='    connection.execute("PRAGMA synchronous=EXTRA")',
        after='    connection.execute("PRAGMA synchronous=FULL")',
        caught_by=(f"{_FILE}test_a_commit_is_durable_in_the_strict_sense",),
    ),
    Mutant(
        name="rows go to a SQLite file that no path names any more",
        rule="R2",
        path=_SQLITE,
        before="            return _identity(self._path) == self._file",
        after="            return self._path.exists()",
        caught_by=(f"{_FILE}test_a_file_that_was_replaced_is_not_written_to_under_its_old_name",),
    ),
    Mutant(
        name="a SQLite file that another process has locked is a fault of the pipeline",
        rule="R7",
        path="connectors/sql/sqlite/errors.py",
        before="    **dict.fromkeys(_LOCKED, ",
        after="    **dict.fromkeys(_LOCKED - {sqlite3.SQLITE_BUSY}, ",
        caught_by=(f"{_FILE}test_a_locked_database_is_unavailable_and_nothing_is_lost",),
    ),
)
