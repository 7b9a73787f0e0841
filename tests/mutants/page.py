"""Who reads and steers by the page."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_CLOSED = "tests/spark_jobs/page/test_security.py::test_everything_takes_the_token_but_the_page_itself_and_the_probes"
_OUTPUT = "tests/spark_jobs/page/test_security.py::test_eos_ui_serves_until_it_is_stopped"

_LETTERS = "tests/spark_jobs/page/test_dead_letters.py"
_PROGRESS = (
    "tests/spark_jobs/page/test_metrics.py::test_an_idle_pipeline_progresses_and_one_that_has_records_to_read_does_not"
)

MUTANTS: Final = (
    Mutant(
        name="other users of the machine read the page without a token",
        rule="docs/how-to/watching.md, Who may see it, and who may steer",
        path="spark_jobs/page/auth.py",
        before="        if not is_reading or path.startswith(_CLOSED):\n",
        after="        if not is_reading or (not self.is_loopback and path.startswith(_CLOSED)):\n",
        caught_by=(_CLOSED,),
    ),
    Mutant(
        name="the token that reads steers, too",
        rule="docs/how-to/watching.md, Who may see it, and who may steer",
        path="spark_jobs/page/auth.py",
        before="                if not is_reading:\n",
        after="                if False:\n",
        caught_by=(_CLOSED,),
    ),
    Mutant(
        name="the token that reads opens dead letters and logs",
        rule="docs/how-to/watching.md, Who may see it, and who may steer",
        path="spark_jobs/page/auth.py",
        before="    if not _may_steer(request):\n",
        after="    if False:\n",
        caught_by=(
            f"{_LETTERS}::test_a_token_that_only_reads_sees_no_record",
            "tests/spark_jobs/page/test_log.py::test_logs_of_the_run_of_spark_and_of_its_processes",
        ),
    ),
    Mutant(
        name="contents of a dead letter turn the line around",
        rule="docs/how-to/security.md, Secrets",
        path="spark_jobs/page/dead_letters.py",
        before="text=text.translate(_ESCAPES_OF_TEXT)",
        after="text=text",
        caught_by=(f"{_LETTERS}::test_contents_are_text_or_digits_with_escapes_and_without_secrets",),
    ),
    Mutant(
        name="the page keeps every dead letter of a topic in the driver's memory",
        rule="docs/reference/rest.md",
        path="connectors/dead_letters.py",
        before="        while len(kept) > most or (size > most_bytes and len(kept) > 1):\n",
        after="        while len(kept) > most:\n",
        caught_by=(f"{_LETTERS}::test_a_reading_is_bounded_in_number_and_bytes",),
    ),
    Mutant(
        name="the token of the page is printed where the output is kept",
        rule="docs/how-to/watching.md, Who may see it, and who may steer",
        path="spark_jobs/cli/ui.py",
        before="    if page.made_token is None or sys.stdout.isatty():\n",
        after="    if True:\n",
        caught_by=(_OUTPUT,),
    ),
    Mutant(
        name="everybody who may look into the folder reads the token of the page",
        rule="docs/how-to/watching.md, Who may see it, and who may steer",
        path="spark_jobs/observe/run_lock.py",
        before="            if private:\n",
        after="            if False:\n",
        caught_by=(_OUTPUT,),
    ),
    Mutant(
        name="a pipeline with records to read that completes no checkpoint is idle",
        rule="docs/reference/metrics.md, Metrics",
        path="spark_jobs/page/metrics.py",
        before="set(self.sources) and not any(each.unread != 0 for each in self.polls.values()):\n",
        after="set(self.sources):\n",
        caught_by=(_PROGRESS,),
    ),
    Mutant(
        name="a pipeline with nothing to read does not go on",
        rule="docs/reference/metrics.md, Metrics",
        path="spark_jobs/page/metrics.py",
        before="            self.progressed_at = max(self.progressed_at, min(each.at for each in self.polls.values()))\n",
        after="            pass\n",
        caught_by=(_PROGRESS,),
    ),
    Mutant(
        name="what a plan has taken counts as unread",
        rule="docs/reference/metrics.md, Metrics",
        path="spark_jobs/observe/withheld.py",
        before="        begins = {**horizon.discovered.positions, **taken}\n",
        after="        begins = {**taken, **horizon.discovered.positions, **dict.fromkeys(taken, 0)}\n",
        caught_by=("tests/spark_jobs/query/test_source.py::test_each_look_tells_how_much_no_plan_before_has_taken",),
    ),
    Mutant(
        name="each partition is a series, though nobody has asked for that",
        rule="docs/reference/metrics.md, Metrics",
        path="spark_jobs/page/metrics.py",
        before="splits.items() if self.per_split else ():\n",
        after="splits.items():\n",
        caught_by=(
            "tests/spark_jobs/page/test_metrics.py::test_without_being_asked_no_figure_grows_with_the_number_of_splits",
        ),
    ),
    Mutant(
        name="a line that a thread logs is of no pipeline",
        rule="docs/how-to/watching.md, The log",
        path="twophase/gather.py",
        before="Thread(target=copy_context().run, args=(_answer, futures[name], calls[name]),",
        after="Thread(target=_answer, args=(futures[name], calls[name]),",
        caught_by=("tests/spark_jobs/observe/test_log_lines.py::test_each_line_is_of_the_pipeline_of_its_thread",),
    ),
)
