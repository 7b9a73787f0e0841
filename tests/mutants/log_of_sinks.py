"""Sinks with a log: whose segments are applied, collected and deleted, and which row of a key is the newest."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_COMMITTER: Final = "connectors/log/committer.py"
_KEYED: Final = "connectors/log/keyed.py"
_KEYED_ROWS: Final = "connectors/log/keyed_rows.py"
_LISTED: Final = "connectors/log/segments.py"
_NEWEST: Final = "connectors/log/newest.py"
_SEGMENTS: Final = "connectors/log/segments.py"
_BELONGING: Final = "connectors/log/committer.py"
_OWNER: Final = "connectors/owner.py"
_SINK_TESTS: Final = "tests/connectors/sql/sqlite/test_sink.py"
_REPAIR_TESTS: Final = "tests/connectors/sql/sqlite/test_sink_repair.py"
_KEYED_TESTS: Final = "tests/connectors/log/test_keyed.py"
_NEWEST_TESTS: Final = "tests/connectors/log/test_newest.py"
_COMPLIANCE: Final = "tests/connectors/sql/sqlite/test_compliance.py"
_MERGED: Final = "docs/reference/sinks.md, Rows that are merged"

MUTANTS: Final = (
    Mutant(
        name="a segment that is gone is not lost",
        rule="R7",
        path=_COMMITTER,
        before="""                except (SegmentMissingError, SegmentDamagedError):
                    lost.append(each)
""",
        after="""                except (SegmentMissingError, SegmentDamagedError):
                    continue
""",
        caught_by=(f"{_COMPLIANCE}::TestSqliteLog::test_what_is_lost_is_written_again_once",),
    ),
    Mutant(
        name="what is applied is lost where its segment was collected",
        rule="R7",
        path=_COMMITTER,
        before="                if ref is None or entries.slots.get(slot, entries.applied) >= checkpoint_id:\n",
        after="                if ref is None:\n",
        caught_by=(f"{_COMPLIANCE}::TestSqliteLog::test_what_was_not_lost_is_not_written_again",),
    ),
    Mutant(
        name="segments are collected though their rows are not all applied",
        rule="R7",
        path=_COMMITTER,
        before="        if CommitOutcome.LOST not in outcomes.values():\n",
        after="        if CommitOutcome.LOST not in outcomes:\n",
        caught_by=(f"{_REPAIR_TESTS}::test_what_is_lost_is_written_again_once",),
    ),
    Mutant(
        name="pruning deletes segments that are not applied",
        rule="R7",
        path=_COMMITTER,
        before="            self._log(incarnation).collect(min(below - 1, applied))\n",
        after="            self._log(incarnation).collect(below - 1)\n",
        caught_by=(f"{_SINK_TESTS}::test_prune_never_touches_what_is_not_applied",),
    ),
    Mutant(
        name="what is applied is listed as prepared",
        rule="R8",
        path=_COMMITTER,
        before="                if each.scope.checkpoint_id > entries.applied and each not in entries.seen\n",
        after="                if each not in ()\n",
        caught_by=(f"{_SINK_TESTS}::test_segments_of_applied_checkpoints_are_garbage",),
    ),
    Mutant(
        name="an abort deletes segments of a newer epoch",
        rule="R8",
        path=_COMMITTER,
        before="        check_older(self.name, self._epoch, own)\n",
        after="",
        caught_by=(f"{_SINK_TESTS}::test_nobody_aborts_what_is_applied_or_of_a_newer_epoch",),
    ),
    Mutant(
        name="writers of an older epoch go on after a claim",
        rule="R9",
        path=_COMMITTER,
        before="""            log.sweep(epoch)
            log.collect(applied)
""",
        after="            log.collect(applied)\n",
        caught_by=(f"{_SINK_TESTS}::test_a_claim_ends_the_writers_of_older_epochs",),
    ),
    Mutant(
        name="an abort ends the writers of its own epoch",
        rule="R9",
        path=_LISTED,
        before="if each is not None and each.scope.epoch < epoch])",
        after="if each is not None and each.scope.epoch <= epoch])",
        caught_by=(f"{_SINK_TESTS}::test_an_abort_spares_the_writers_of_its_own_epoch",),
    ),
    Mutant(
        name="segments of other pipelines are taken for one's own",
        rule="R8",
        path=_LISTED,
        before="        if transaction is None or transaction.sink != self.sink or transaction.scope.incarnation != self.incarnation:\n",
        after="        if transaction is None:\n",
        caught_by=(f"{_SINK_TESTS}::test_what_others_wrote_side_by_side_stays",),
    ),
    Mutant(
        name="a segment of a sibling that lost stays for ever",
        rule="H1",
        path=_LISTED,
        before="""            if self._is_up_to(name, applied):
                self.storage.delete(name)
""",
        after="""            if self._is_up_to(name, applied - 1):
                self.storage.delete(name)
""",
        caught_by=(f"{_SINK_TESTS}::test_segments_of_applied_checkpoints_are_garbage",),
    ),
    Mutant(
        name="what an earlier version wrote side by side is not found",
        rule="docs/explanation/protocol.md, Formats",
        path=_LISTED,
        before='*([""] if self.everywhere else [])):',
        after='*([] if self.everywhere else [""])):',
        caught_by=(f"{_SINK_TESTS}::test_what_an_earlier_version_wrote_side_by_side_is_found_by_the_next_start",),
    ),
    Mutant(
        name="committables of another checkpoint are applied",
        rule="R6",
        path="connectors/owner.py",
        before="        if (scope.incarnation, scope.checkpoint_id, each.transaction.sink) != wanted:\n",
        after="        if scope.incarnation != wanted[0]:\n",
        caught_by=(f"{_SINK_TESTS}::test_committables_of_another_checkpoint_or_sink_are_refused",),
    ),
    Mutant(
        name="rows of one task are divided among slots",
        rule="R10",
        path=_SEGMENTS,
        before="each.transaction.task % slots == slot]",
        after="each.transaction.task_attempt % slots == slot]",
        caught_by=(f"{_REPAIR_TESTS}::test_another_number_of_slots_is_for_later_checkpoints",),
    ),
    Mutant(
        name="what another commit variant has prepared is applied as if it had no rows",
        rule="R7",
        path=_SEGMENTS,
        before="    if slots is None or others:\n",
        after="""    if slots is None:
        return 1
    if others:
""",
        caught_by=("tests/spark_jobs/cli/test_repair.py::test_what_another_commit_variant_has_prepared",),
    ),
    Mutant(
        name="what is written again is divided by the slots of today",
        rule="R7",
        path="connectors/log/place.py",
        before="        return (slots_of([replaces]) if replaces is not None else None) or self.slots\n",
        after="        return self.slots\n",
        caught_by=(f"{_REPAIR_TESTS}::test_another_number_of_slots_is_for_later_checkpoints",),
    ),
    Mutant(
        name="an older epoch takes the sink back",
        rule="R2",
        path=_OWNER,
        before="    if found.epoch > owner.epoch:\n",
        after="    if found.epoch < owner.epoch:\n",
        caught_by=(f"{_SINK_TESTS}::test_a_claim_fences_the_older_epoch",),
    ),
    Mutant(
        name="a driver of an older epoch applies what is decided",
        rule="R3",
        path=_OWNER,
        before="    if found is None or found.incarnation != incarnation or epoch not in (None, found.epoch):\n",
        after="    if found is None or found.incarnation != incarnation:\n",
        caught_by=(f"{_SINK_TESTS}::test_a_claim_fences_the_older_epoch",),
    ),
    Mutant(
        name="of several rows of a key the oldest one wins",
        rule=_MERGED,
        path=_KEYED,
        before='((_OFFSET, "ascending"), (GONE,',
        after='((_OFFSET, "descending"), (GONE,',
        caught_by=(f"{_COMPLIANCE}::TestSqliteUpsert::test_the_greatest_offset_wins_whichever_comes_first",),
    ),
    Mutant(
        name="rows of one key from two partitions are compared",
        rule="H16",
        path=_NEWEST,
        before="            self._check_origin(groups, own, code, origin)\n",
        after="            del code, origin\n",
        caught_by=(f"{_NEWEST_TESTS}::test_h16_rows_of_one_key_from_two_partitions_do_not_compare",),
    ),
    Mutant(
        name="rows of several topics are compared by their offsets alone",
        rule="H16",
        path=_KEYED,
        before="        return (*PLACE, TOPIC) if self.by_topic else PLACE\n",
        after="        return PLACE\n",
        caught_by=(f"{_KEYED_TESTS}::test_h16_the_newer_row_of_another_topic_is_not_taken_for_the_older_one",),
    ),
    Mutant(
        name="a key that goes and comes again in one record is gone",
        rule=_MERGED,
        path=_KEYED,
        before='(GONE, "descending"))\n',
        after='(GONE, "ascending"))\n',
        caught_by=(f"{_KEYED_TESTS}::test_a_key_that_changes_in_one_record_goes_and_comes_again",),
    ),
    Mutant(
        name="a row that is deleted is kept",
        rule=_MERGED,
        path=_KEYED_ROWS,
        before="        return pc.fill_null(batch.column(self.upsert.deleted), False)\n",
        after="        return pc.and_(batch.column(self.upsert.deleted), pc.is_null(batch.column(self.upsert.deleted)))\n",
        caught_by=(f"{_COMPLIANCE}::TestSqliteUpsert::test_keys_are_deleted",),
    ),
    Mutant(
        name="a row without a place is taken for the newest",
        rule=_MERGED,
        path=_KEYED_ROWS,
        before="        for name in (*self.upsert.key, *order, *self.upsert.place):\n",
        after="        for name in (*self.upsert.key, *order):\n",
        caught_by=(f"{_KEYED_TESTS}::test_a_row_without_a_topic_is_neither_old_nor_new",),
    ),
    Mutant(
        name="a row whose key is NULL is merged",
        rule=_MERGED,
        path=_KEYED_ROWS,
        before="        for name in (*self.upsert.key, *order, *self.upsert.place):\n",
        after="        for name in (*order, *self.upsert.place):\n",
        caught_by=(f"{_COMPLIANCE}::TestSqliteUpsert::test_a_key_that_is_null_is_a_bad_row",),
    ),
    Mutant(
        name="`eos doctor` is content with a store that overwrites",
        rule="docs/reference/sinks.md, The log in an object store",
        path="connectors/buckets/promises.py",
        before="""    if not objects.create(name, b"other"):
""",
        after="""    if not objects.create(name, b"other") or name:
""",
        caught_by=("tests/connectors/log/test_probe.py::test_a_store_that_ignores_the_condition",),
    ),
    Mutant(
        name="`eos doctor` is content with a store that refuses too late",
        rule="docs/reference/commands.md, Checks of an object store",
        path="connectors/buckets/promises.py",
        before="""    if objects.read(name) != found:
        return "an older tag was refused, and yet the object has changed"
""",
        after="",
        caught_by=("tests/connectors/buckets/test_location.py::test_a_store_that_breaks_a_promise_of_replacements",),
    ),
    Mutant(
        name="`eos doctor` is content with a store that compares before others have written",
        rule="docs/reference/commands.md, Checks of an object store",
        path="connectors/buckets/promises.py",
        before="""            if len(landed) > 1:
""",
        after="""            if len(landed) > _AT_ONCE:
""",
        caught_by=("tests/connectors/buckets/test_location.py::test_a_store_that_breaks_a_promise_of_replacements",),
    ),
    Mutant(
        name="`eos doctor` leaves its objects behind after a failure",
        rule="docs/reference/commands.md, Checks of an object store",
        path="connectors/buckets/promises.py",
        before="""            objects.delete(name)
        except StorageError as error:
""",
        after="""            pass
        except StorageError as error:
""",
        caught_by=("tests/connectors/buckets/test_location.py::test_what_was_written_is_deleted_after_a_failure",),
    ),
)
