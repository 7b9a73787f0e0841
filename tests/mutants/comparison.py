"""The comparison of head, Spark's checkpoint and the sinks (R2)."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        name="a checkpoint location of another pipeline is taken",
        rule="R2",
        path="twophase/verify.py",
        before="""    if head.pipeline != pipeline:
""",
        after="""    if not head.pipeline:
""",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="Spark's checkpoint of another query is taken",
        rule="R2",
        path="twophase/verify.py",
        before="""    if head.query_id is not None and spark.query_id != head.query_id:
""",
        after="""    if head.query_id is not None and spark.query_id is None:
""",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="Spark's checkpoint from a backup is taken",
        rule="R2",
        path="twophase/verify.py",
        before="""    if spark.newest_planned not in (last, last + 1):
""",
        after="""    if spark.newest_planned > last + 1:
""",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="a batch that head has not completed may be done for Spark",
        rule="R2",
        path="twophase/verify.py",
        before="""    if spark.newest_committed > last and unfinished is None:
""",
        after="""    if spark.newest_committed > last + 1 and unfinished is None:
""",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="a plan that is not the decided one is taken",
        rule="R2",
        path="twophase/verify.py",
        before="""    if newest is not None and spark.offsets_log.get(last) != newest.offsets_log:
""",
        after="""    if newest is not None and last not in spark.offsets_log:
""",
        caught_by=("tests/twophase/test_verify.py::test_a_decided_plan_that_a_disk_has_cut_off_is_named_as_that",),
    ),
    Mutant(
        name="a list of files that is not the decided one is continued",
        rule="H25",
        path="twophase/verify.py",
        before="        if found.get(folder) != newest.source_lists.get(folder):",
        after="        if folder not in found:",
        caught_by=("tests/twophase/test_verify.py::test_h25_lists_of_files_are_compared_with_the_decision",),
    ),
    Mutant(
        name="a sink that holds decided rows is taken out",
        rule="R2",
        path="twophase/verify.py",
        before="""    if head.committed < head.completed:
        message = f"checkpoint {head.completed} is not yet committed to sink""",
        after="""    if head.committed > head.completed:
        message = f"checkpoint {head.completed} is not yet committed to sink""",
        caught_by=(
            "tests/twophase/test_verify.py::test_a_sink_is_not_taken_out_of_the_spec_while_something_waits_for_it",
        ),
    ),
    Mutant(
        name="a sink that may hold prepared transactions is taken out",
        rule="R2",
        path="twophase/verify.py",
        before="    return spark.newest_planned != head.completed or",
        after="    return",
        caught_by=(
            "tests/twophase/test_verify.py::test_a_sink_is_not_taken_out_of_the_spec_while_something_waits_for_it",
        ),
    ),
    Mutant(
        name="a sink that another incarnation has claimed is taken",
        rule="R2",
        path="twophase/verify.py",
        before="""    if sink.claim_incarnation not in (None, head.incarnation):
""",
        after="""    if sink.claim_incarnation == "":
""",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="a sink that is new to a pipeline lacks the earlier rows",
        rule="R2",
        path="twophase/verify.py",
        before="""    if name not in head.sinks and head.completed >= 0:
""",
        after="""    if name not in head.sinks and head.completed < -1:
""",
        caught_by=("tests/twophase/test_verify.py::test_a_sink_that_lacks_what_was_decided_does_not_join",),
    ),
    Mutant(
        name="an empty database is taken for the one that was written to",
        rule="R2",
        path="twophase/verify.py",
        before="""    if sink.claim_incarnation is None and head.completed >= 0:
""",
        after="""    if sink.claim_incarnation is None and head.completed < -1:
""",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="head that is older than a sink's claim is taken",
        rule="R2",
        path="twophase/verify.py",
        before="""    if sink.claim_epoch > head.epoch:
""",
        after="""    if sink.claim_epoch > head.epoch + 1:
""",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="rows that head has not decided are accepted in a sink",
        rule="R2",
        path="twophase/verify.py",
        before="""    if sink.highest_witness > head.completed:
""",
        after="""    if sink.highest_witness > head.completed + 1:
""",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="a sink without a count may lack committed rows",
        rule="R2",
        path="twophase/verify.py",
        before="    if sink.missing and sink.counted is None:",
        after="    if sink.missing and sink.counted is not None:",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="a pipeline without head takes the sinks of another life",
        rule="R2",
        path="twophase/verify.py",
        before="""        if sink.claim_incarnation is not None:
            message = (
                f"sink {name} belongs""",
        after="""        if sink.claim_incarnation == pipeline:
            message = (
                f"sink {name} belongs""",
        caught_by=("tests/twophase/test_verify.py::test_what_does_not_fit_is_refused",),
    ),
    Mutant(
        name="a start runs a batch again whose rows it cannot compare",
        rule="R4",
        path="twophase/verify.py",
        before="""    if newest is not None and spark.newest_committed < newest.checkpoint_id:
""",
        after="""    if newest is not None and spark.newest_committed > newest.checkpoint_id:
""",
        caught_by=(
            "tests/twophase/test_verify.py::test_digests_that_this_version_does_not_compute_are_refused_before_the_claim",
        ),
    ),
    Mutant(
        name="a dead letter joins between the decision and the commit of a checkpoint",
        rule="R2",
        path="twophase/verify.py",
        before="""    if joins and (head.committed == head.completed or name in head.sinks):
""",
        after="""    if joins:
""",
        caught_by=("tests/connectors/test_dead_letters.py::test_a_dead_letter_joins_a_pipeline_that_has_run",),
    ),
    Mutant(
        name="a dead letter that has joined is new again after a repair that failed",
        rule="R2",
        path="twophase/verify.py",
        before="(head.committed == head.completed or name in head.sinks)",
        after="head.committed == head.completed",
        caught_by=(
            "tests/connectors/sql/sqlite/test_sink_protocol.py::"
            "test_r7_a_repair_that_failed_is_run_again_where_a_dead_letter_had_just_joined",
        ),
    ),
)
