"""The register of head, its records and requests, and what is in doubt."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PARTED: Final = "tests/twophase/test_parted_head.py::"
_CONNECTIONS: Final = "integration_tests/test_head_connections.py::"

MUTANTS: Final = (
    Mutant(
        name="a swap in a folder compares the version alone",
        rule="H29",
        path="twophase/local_head.py",
        before="(expected is not None and not self._holds(expected)) or not create",
        after="not create",
        caught_by=(
            "tests/twophase/test_head_stores.py::TestFiles::test_h29_a_folder_put_back_from_a_backup_does_not_take_the_swap_of_a_driver_that_lives",
        ),
    ),
    Mutant(
        name="a swap that comes very late lands",
        rule="H21",
        path="twophase/local_head.py",
        before="""        if newest - version >= _KEPT:
""",
        after="""        if newest - version >= 1000 * _KEPT:
""",
        caught_by=("tests/twophase/test_head_stores.py::TestEveryHead::test_a_swap_that_comes_very_late_is_refused",),
    ),
    Mutant(
        name="two records share one name",
        rule="H8",
        path="twophase/local_head.py",
        before="""        if not self._records.put(name, content) and self.get_record(name) != content:
""",
        after="""        if not self._records.put(name, content) and not self.get_record(name):
""",
        caught_by=("tests/twophase/test_head_stores.py::TestEveryHead::test_a_record_is_stored_once",),
    ),
    Mutant(
        name="a version that is cleaned away during a read is taken for a pipeline that never ran",
        rule="R1",
        path="twophase/local_head.py",
        before="""            except FileNotFoundError:
                continue
""",
        after="""            except FileNotFoundError:
                return None
""",
        caught_by=(
            "tests/twophase/test_head_stores.py::test_a_version_that_is_cleaned_away_during_a_read_is_no_empty_head",
        ),
    ),
    Mutant(
        name="a swap in a folder writes over that of another driver",
        rule="H21",
        path="twophase/local_blobs.py",
        before="""        os.link(partial, target)
""",
        after="""        os.replace(partial, target)
""",
        caught_by=("tests/twophase/test_head_stores.py::TestFiles::test_a_name_that_was_not_synced_is_no_success",),
    ),
    Mutant(
        name="a disk that takes a part of a file is not noticed",
        rule="H21",
        path="twophase/local_blobs.py",
        before="""    if file.write(content) != len(content):
""",
        after="""    if file.write(content) > len(content):
""",
        caught_by=("tests/twophase/test_head_stores.py::test_a_disk_that_takes_a_part_of_a_file_has_not_written_it",),
    ),
    Mutant(
        name="a sweep takes away what another process still writes",
        rule="H21",
        path="twophase/local_blobs.py",
        before="""            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
""",
        after="""            path.unlink()
""",
        caught_by=("tests/twophase/test_head_stores.py::TestFiles::test_what_a_living_driver_is_writing_stays",),
    ),
    Mutant(
        name="head's decision is not on disk when it is acknowledged",
        rule="R6",
        path="twophase/local_blobs.py",
        before="""                os.fsync(file.fileno())
""",
        after="""                file.flush()
""",
        caught_by=("tests/project/test_power_cut.py::test_folders_that_another_process_created_and_did_not_sync",),
    ),
    Mutant(
        name="the name of head's decision is not on disk when it is acknowledged",
        rule="R6",
        path="twophase/local_blobs.py",
        before="""                sync_folder(target.parent)
                return linked
""",
        after="""                return linked
""",
        caught_by=("tests/project/test_power_cut.py::test_a_request_beside_head",),
    ),
    Mutant(
        name="a head that is damaged is believed",
        rule="R1",
        path="twophase/codec.py",
        before="""        if checksum != sha256_of(_dump(document)):
""",
        after="""        if not checksum:
""",
        caught_by=("tests/twophase/test_codec.py::test_a_head_that_does_not_match_its_checksum_says_what_to_do",),
    ),
    Mutant(
        name="a record that is damaged is believed",
        rule="R6",
        path="twophase/codec.py",
        before="""    if sha256 is not None and sha256_of(content) != sha256:
""",
        after="""    if sha256 is not None and not content:
""",
        caught_by=("tests/twophase/test_codec.py::test_a_record_that_does_not_match_its_hash_is_damaged",),
    ),
    Mutant(
        name="a document of a newer format is read",
        rule="docs/explanation/protocol.md, Formats",
        path="twophase/codec.py",
        before="""    if found != known or type(found) is not int:
""",
        after="""    if type(found) is not int:
""",
        caught_by=("tests/twophase/test_codec.py::test_another_format_is_refused_by_name",),
    ),
    Mutant(
        name="a record forgets which method has computed its digests",
        rule="R4",
        path="twophase/codec.py",
        before="""            **({"digest_method": record.digest_method} if record.digest_method is not None else {}),
""",
        after="",
        caught_by=("tests/twophase/test_codec.py::test_a_record_comes_back_as_it_was",),
    ),
    Mutant(
        name="a record forgets that tasks have committed themselves",
        rule="docs/explanation/protocol.md, At-least-once",
        path="twophase/codec.py",
        before="""            direct=document.get("direct", False),
""",
        after="""            direct=False,
""",
        caught_by=("tests/twophase/test_at_least_once.py::test_a_record_tells_its_mode",),
    ),
    Mutant(
        name="a request that nobody waits for any more is carried out",
        rule="docs/how-to/operations.md",
        path="twophase/requests.py",
        before=""" and request.expires_at > self.clock())
""",
        after=""")
""",
        caught_by=("tests/spark_jobs/run/test_requests.py::test_what_nobody_waits_for_is_not_done",),
    ),
    Mutant(
        name="a request that was answered is carried out once more",
        rule="docs/how-to/operations.md",
        path="twophase/requests.py",
        before="for each in ids if _answered(each) not in names]",
        after="for each in ids]",
        caught_by=("tests/spark_jobs/run/test_requests.py::test_asked_in_one_process_and_answered_in_another",),
    ),
    Mutant(
        name="a decided transaction is shown as one to be rolled back",
        rule="R7",
        path="twophase/in_doubt.py",
        before="""            if committable.transaction == transaction:
""",
        after="""            if committable is transaction:
""",
        caught_by=("tests/twophase/test_in_doubt.py::test_a_decided_one_brings_all_of_its_checkpoint_along",),
    ),
    Mutant(
        name="a transaction of a driver that lives is shown as one to be rolled back",
        rule="R8",
        path="twophase/in_doubt.py",
        before="""    if scope.epoch < head.epoch:
""",
        after="""    if scope.epoch <= head.epoch:
""",
        caught_by=(
            "tests/twophase/test_in_doubt.py::test_a_try_that_was_aborted_is_rolled_back_and_the_next_one_is_open",
        ),
    ),
    Mutant(
        name="a losing attempt of a decided task is shown as decided",
        rule="H1",
        path="twophase/in_doubt.py",
        before="""            if committable.transaction == transaction:
""",
        after="""            if committable.transaction.task == transaction.task:
""",
        caught_by=("tests/twophase/test_in_doubt.py::test_resolutions",),
    ),
    Mutant(
        name="each call to head opens a connection",
        rule="docs/explanation/scale.md, Many pipelines",
        path="connectors/sql/head.py",
        before="_KEPT: Final = 2\n",
        after="_KEPT: Final = 0\n",
        caught_by=(f"{_CONNECTIONS}test_calls_share_a_connection",),
    ),
    Mutant(
        name="a connection to head that has answered with an error is kept",
        rule="docs/explanation/scale.md, Many pipelines",
        path="connectors/sql/head.py",
        before="            self._engine.dispose()\n",
        after="",
        caught_by=(f"{_CONNECTIONS}test_after_an_error_no_connection_is_kept",),
    ),
    Mutant(
        name="a start loses what a newer version keeps in head",
        rule="docs/explanation/protocol.md, Formats",
        path="twophase/effects.py",
        before="                    check_writable(seen.head)\n",
        after="                    pass\n",
        caught_by=(
            "tests/twophase/test_effects.py::"
            "test_a_head_with_what_a_newer_version_keeps_there_is_refused_before_any_sink_is_touched",
        ),
    ),
    Mutant(
        name="a document that takes a newer reader is read",
        rule="docs/explanation/protocol.md, Formats",
        path="twophase/codec.py",
        before="    elif type(least) is not int or least > known:\n",
        after="    elif type(least) is not int:\n",
        caught_by=("tests/twophase/test_codec.py::test_a_newer_document_that_takes_a_newer_reader_is_refused_by_name",),
    ),
    Mutant(
        name="what is not known is passed over in a document of this format",
        rule="docs/explanation/protocol.md, Formats",
        path="twophase/codec.py",
        before='        if unknown and document["format"] <= newest:\n',
        after="        if False:\n",
        caught_by=("tests/twophase/test_codec.py::test_what_is_not_known_of_this_very_format_is_refused_by_name",),
    ),
    Mutant(
        name="head names its splits before they are stored",
        rule="R6",
        path="twophase/parted_head.py",
        before="            self.store.put_record(name, self._encode_splits(head)[0])\n",
        after="",
        caught_by=(f"{_PARTED}test_a_large_head_is_small_and_its_splits_are_stored_once_for_each_checkpoint",),
    ),
    Mutant(
        name="after a fail-over head names a record that only the old server has",
        rule="R6",
        path="twophase/local_head.py",
        before="        if not all(map(self._records.holds, needs)):\n            return False\n",
        after="",
        caught_by=(
            f"{_PARTED}test_a_fail_over_before_a_swap_leaves_no_head_that_names_what_is_not_there",
            "tests/twophase/test_head_stores.py::TestEveryHead::test_a_swap_lands_only_with_the_records_that_it_needs",
        ),
    ),
    Mutant(
        name="a database's head names a record that is not there",
        rule="R6",
        path="connectors/sql/head.py",
        before="                if not self._records.hold(connection, needs):\n                    return False\n",
        after="",
        caught_by=(
            "tests/twophase/test_head_stores.py::TestEveryHead::test_a_swap_lands_only_with_the_records_that_it_needs",
        ),
    ),
    Mutant(
        name="a power cut takes back a swap of head in a SQLite file",
        rule="R6",
        path="connectors/sql/sqlite/database.py",
        before='hide_parameters=True)\n    event.listen(engine, "connect", _make_durable)\n',
        after="hide_parameters=True)\n",
        caught_by=("tests/twophase/test_head_stores.py::test_a_power_cut_takes_back_no_swap_in_a_sqlite_file",),
    ),
    Mutant(
        name="what a swap without an answer named is not stored again",
        rule="R6",
        path="twophase/parted_head.py",
        before="        self._is_doubted = doubted\n        if doubted:\n            self._stored.clear()\n",
        after="        pass\n",
        caught_by=(f"{_PARTED}test_a_fail_over_before_a_swap_leaves_no_head_that_names_what_is_not_there",),
    ),
    Mutant(
        name="the splits of the oldest record's checkpoint are pruned",
        rule="R6",
        path="twophase/parted_head.py",
        before="if (completed < oldest or",
        after="if (completed <= oldest or",
        caught_by=(f"{_PARTED}test_every_head_since_the_oldest_record_finds_its_parts_whoever_prunes_and_dies",),
    ),
    Mutant(
        name="each start that completes nothing leaves its splits for good",
        rule="R6",
        path="twophase/parted_head.py",
        before=" and epoch < head.epoch - _KEPT_EPOCHS\n",
        after=" and False\n",
        caught_by=(f"{_PARTED}test_starts_that_complete_nothing_do_not_fill_the_store",),
    ),
    Mutant(
        name="splits of a life that has just begun are taken for those of an older one",
        rule="R6",
        path="twophase/parted_head.py",
        before="else epoch < head.epoch:",
        after="else True:",
        caught_by=(f"{_PARTED}test_every_head_since_the_oldest_record_finds_its_parts_whoever_prunes_and_dies",),
    ),
    Mutant(
        name="splits that are pruned are taken for stored",
        rule="R6",
        path="twophase/parted_head.py",
        before="""        if name not in self._stored:
""",
        after="""        if not self._stored:
""",
        caught_by=(f"{_PARTED}test_a_large_head_is_small_and_its_splits_are_stored_once_for_each_checkpoint",),
    ),
    Mutant(
        name="splits whose head has gone on are missing for a reader",
        rule="R6",
        path="twophase/parted_head.py",
        before="""                    if read == before:
                        raise
""",
        after="""                    raise
""",
        caught_by=(f"{_PARTED}test_a_reader_whose_part_is_pruned_meanwhile_reads_the_newer_head",),
    ),
    Mutant(
        name="splits that are not pruned pile up",
        rule="docs/explanation/scale.md, Many partitions",
        path="twophase/effects.py",
        before="if self.head.has_parts:",
        after="if False:",
        caught_by=(f"{_PARTED}test_a_pipeline_of_many_splits_goes_on_and_keeps_no_more_than_its_records",),
    ),
    Mutant(
        name="damaged splits are read",
        rule="R6",
        path="twophase/codec.py",
        before="""    if sha256_of(content) != part.sha256:
""",
        after="""    if not part.sha256:
""",
        caught_by=(f"{_PARTED}test_a_part_that_is_not_what_head_names_is_refused_by_name",),
    ),
)
