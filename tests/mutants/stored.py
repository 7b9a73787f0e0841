"""Stored documents that neighbouring versions read, and the list of them that the code completes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TESTS: Final = "tests/project/test_neighbours.py::"
_RULE: Final = "docs/explanation/protocol.md, Formats"

MUTANTS: Final = (
    Mutant(
        name="a document is stored that has no golden files",
        rule=_RULE,
        path="spark_jobs/observe/run_lock.py",
        before="def folder_of(spec: Spec) -> Path:\n",
        after="def kept(spec: Spec) -> str:\n    return json.dumps([spec.pipeline])\n\n\ndef folder_of(spec: Spec) -> Path:\n",
        caught_by=(f"{_TESTS}test_every_place_that_stores_a_document_is_of_a_kind",),
    ),
    Mutant(
        name="a number is raised without golden files",
        rule=_RULE,
        path="twophase/requests.py",
        before="FORMAT: Final = 1\n",
        after="FORMAT: Final = 2\n",
        caught_by=(f"{_TESTS}test_each_number_in_the_code_is_that_of_its_golden_files",),
    ),
    Mutant(
        name="what a newer version adds for readers of today is refused",
        rule=_RULE,
        path="twophase/codec.py",
        before="(name in known or not is_newer)",
        after="True",
        caught_by=(f"{_TESTS}test_a_document_of_the_next_version_is_read_where_that_says_so",),
    ),
    Mutant(
        name="first offsets lose what a newer version keeps there",
        rule=_RULE,
        path="spark_jobs/adapters/kafka_format.py",
        before='        check_nothing_lost(known.unknown, f"the first offsets at {location}")\n',
        after="",
        caught_by=(f"{_TESTS}test_what_this_version_would_lose_is_not_written_over",),
    ),
    Mutant(
        name="a marker that takes a newer reader is read",
        rule=_RULE,
        path="connectors/kafka/sink/markers.py",
        before="""        check_readable(document, f"the record {key!r} of topic {self._topic}", FORMAT)\n""",
        after="",
        caught_by=(f"{_TESTS}test_a_document_that_would_be_misread_is_refused_by_name",),
    ),
    Mutant(
        name="an offset that takes a newer reader is read",
        rule=_RULE,
        path="spark_jobs/query/source_offset.py",
        before='        check_readable({"format": 1, **document}, what, FORMAT)\n',
        after="",
        caught_by=(f"{_TESTS}test_a_document_that_would_be_misread_is_refused_by_name",),
    ),
    Mutant(
        name="a plan that takes a newer reader is read",
        rule=_RULE,
        path="spark_jobs/savepoints/plan.py",
        before='        check_readable({"format": 1, **document}, place, newest)\n',
        after="",
        caught_by=(f"{_TESTS}test_a_document_that_would_be_misread_is_refused_by_name",),
    ),
)
