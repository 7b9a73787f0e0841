"""A spec's promises, what it refuses, and how it is read."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_GUARANTEES: Final = "connectors/spec/guarantees.py"
_MODE: Final = "connectors/spec/graph.py"
_KAFKA_SINK: Final = "connectors/kafka/sink/entry.py"
_STARTING: Final = "connectors/kafka/starting_offsets.py"
_SUBSTITUTION: Final = "connectors/spec/reading.py"
_READER: Final = "connectors/spec/yaml_reader.py"
_TABLE_NAMES: Final = "connectors/spec/table_names.py"
_TABLE_TESTS: Final = "tests/connectors/spec/test_table_names.py"
_MISTAKES: Final = "tests/connectors/spec/test_mistakes.py"
_VALUES: Final = "tests/connectors/spec/test_values.py"
_PROMISES: Final = "tests/connectors/spec/test_guarantees.py"
_GUARANTEED: Final = "docs/explanation/guarantees.md, What each sink guarantees"
_AT_LEAST_ONCE: Final = "docs/reference/sinks.md, At-least-once"

_ONE_QUERY: Final = (
    "tests/spark_jobs/query/test_one_query.py::test_more_than_a_query_is_refused_and_has_done_nothing",
)

MUTANTS: Final = (
    Mutant(
        name="two-phase commit of a topic is taken",
        rule=_GUARANTEED,
        path=_KAFKA_SINK,
        before='refuse({"two-phase": _NO_TWO_PHASE, "upsert": _NO_UPSERT})',
        after='refuse({"upsert": _NO_UPSERT})',
        caught_by=(f"{_MISTAKES}::test_a_mistake_of_a_kafka_sink",),
    ),
    Mutant(
        name="a setting that breaks the transactions of a sink is taken",
        rule="docs/reference/sinks.md, Topics",
        path=_KAFKA_SINK,
        before='    "acks": _TRANSACTIONS_ARE_OURS,\n',
        after="",
        caught_by=(f"{_MISTAKES}::test_a_mistake_of_a_kafka_sink",),
    ),
    Mutant(
        name="a sink has two topics",
        rule="docs/reference/sinks.md, Topics",
        path=_KAFKA_SINK,
        before="        if (self.topic is None) == (self.topic_column is None):\n",
        after="        if self.topic is None and self.topic_column is None:\n",
        caught_by=(f"{_MISTAKES}::test_a_mistake_of_a_kafka_sink",),
    ),
    Mutant(
        name="a setting that moves the positions of a source is taken",
        rule="R6",
        path="connectors/kafka/entry.py",
        before='    "group.id": "write it as group_id",\n',
        after="",
        caught_by=(f"{_MISTAKES}::test_librdkafka_settings_that_the_framework_sets_are_refused",),
    ),
    Mutant(
        name="at-least-once merges rows",
        rule=_AT_LEAST_ONCE,
        path=_MODE,
        before="        if reason:\n",
        after="        if not reason:\n",
        caught_by=(
            "tests/twophase/test_at_least_once.py::test_merging_is_refused_with_the_reason_and_what_else_can_be_had",
        ),
    ),
    Mutant(
        name="a moment without a zone is taken for UTC",
        rule="docs/reference/sources.md",
        path=_STARTING,
        before="""    if value.tzinfo is None:
        raise wrong(f"'{value.isoformat()}' has no time zone", suggestion=f"{value.isoformat()}Z")
""",
        after="    value = value if value.tzinfo else value.replace(tzinfo=UTC)\n",
        caught_by=(
            f"{_MISTAKES}::test_a_mistake_names_line_and_path",
            "tests/spark_jobs/adapters/test_kafka_format.py::test_a_wrong_option_is_refused_by_name",
        ),
    ),
    Mutant(
        name="a moment is rounded to seconds",
        rule="docs/reference/sources.md",
        path=_STARTING,
        before="    return round((value - datetime.fromtimestamp(0, UTC)).total_seconds() * 1000)\n",
        after="    return round((value - datetime.fromtimestamp(0, UTC)).total_seconds()) * 1000\n",
        caught_by=(f"{_PROMISES}::test_a_moment_is_kept_to_the_millisecond",),
    ),
    Mutant(
        name="an offset that is no whole number from 0 is taken",
        rule="docs/reference/sources.md",
        path=_STARTING,
        before="or isinstance(offset, bool) or offset < 0:\n",
        after="or isinstance(offset, bool):\n",
        caught_by=(f"{_PROMISES}::test_offsets_that_are_none_are_refused",),
    ),
    Mutant(
        name="a promise of exactly-once is made for an at-least-once run",
        rule=_GUARANTEED,
        path="connectors/sql/entry.py",
        before="        if context.at_least_once:\n            unique",
        after="        if not context.at_least_once:\n            unique",
        caught_by=("tests/twophase/test_at_least_once.py::test_what_validate_says",),
    ),
    Mutant(
        name="that bad records are left out is not said",
        rule=_GUARANTEED,
        path=_GUARANTEES,
        before='        if source.on_bad_record == "skip":\n',
        after='        if source.on_bad_record == "":\n',
        caught_by=(f"{_PROMISES}::test_what_takes_from_a_guarantee_is_said",),
    ),
    Mutant(
        name="that aborted records are written is not said",
        rule=_GUARANTEED,
        path="connectors/kafka/entry.py",
        before='        if self.isolation_level == "read_uncommitted":\n',
        after='        if self.isolation_level == "":\n',
        caught_by=(f"{_PROMISES}::test_what_takes_from_a_guarantee_is_said",),
    ),
    Mutant(
        name="that lost records are left out is not said",
        rule=_GUARANTEED,
        path="connectors/kafka/entry.py",
        before="        if not self.fail_on_data_loss:\n",
        after="        if self.fail_on_data_loss:\n",
        caught_by=(f"{_PROMISES}::test_what_takes_from_a_guarantee_is_said",),
    ),
    Mutant(
        name="that Python steps must be deterministic is not said",
        rule=_GUARANTEED,
        path=_GUARANTEES,
        before="    if spec.has_python_steps:\n",
        after="    if False:\n",
        caught_by=(f"{_PROMISES}::test_what_takes_from_a_guarantee_is_said",),
    ),
    Mutant(
        name="that a topic needs readers of committed records is not said",
        rule=_GUARANTEED,
        path=_KAFKA_SINK,
        before='            (f"{_TOPIC}, and readers with isolation.level=read_committed", *needs, log_needs(context)),\n',
        after="            (*needs, log_needs(context)),\n",
        caught_by=(f"{_PROMISES}::test_each_sink_and_variant_says_what_it_needs",),
    ),
    Mutant(
        name="that a topic may not be compacted at-least-once is not said",
        rule=_AT_LEAST_ONCE,
        path=_KAFKA_SINK,
        before='[f"{_TOPIC} and is not compacted", *needs]',
        after="needs",
        caught_by=(f"{_PROMISES}::test_each_sink_and_variant_says_what_it_needs",),
    ),
    Mutant(
        name="a reference in what came from outside is resolved once more",
        rule="docs/how-to/security.md, Secrets",
        path=_SUBSTITUTION,
        before="""            value, is_default = self._resolve(match)
            pieces.append(value)
""",
        after="""            value, is_default = self._resolve(match)
            value = self.apply(value) if value != match[0] else value
            pieces.append(value)
""",
        caught_by=(f"{_VALUES}::test_a_value_that_came_in_is_not_resolved_again",),
    ),
    Mutant(
        name="blanks at the end of a secret's file are not a part of it",
        rule="docs/how-to/security.md, Secrets",
        path="connectors/secrets.py",
        before='    return text.removesuffix("\\n").removesuffix("\\r")\n',
        after="    return text.rstrip()\n",
        caught_by=(f"{_VALUES}::test_only_one_newline_at_the_end_of_a_secret_file_goes",),
    ),
    Mutant(
        name="of two equal keys of a spec the later one counts",
        rule="docs/reference/spec.md, The spec",
        path=_READER,
        before="            if key in entries:\n",
        after="            if key in entries and not key:\n",
        caught_by=(f"{_MISTAKES}::test_a_mistake_names_line_and_path",),
    ),
    Mutant(
        name="a number with a leading zero becomes another number",
        rule="docs/reference/spec.md, The spec",
        path=_READER,
        before='_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")\n',
        after='_INTEGER: Final = re.compile(r"-?([0-9]{1,18})")\n',
        caught_by=(f"{_PROMISES}::test_a_number_that_text_could_not_be_made_from_again_stays_text",),
    ),
    Mutant(
        name="a step's SQL may be a command",
        rule="docs/how-to/security.md, A spec is data",
        path="spark_jobs/query/one_query.py",
        before="    elif name not in _OPERATORS:",
        after="    elif False:",
        caught_by=_ONE_QUERY,
    ),
    Mutant(
        name="a step's SQL may compute the name of a function",
        rule="docs/how-to/security.md, A spec is data",
        path="spark_jobs/query/one_query.py",
        before='    if _name(name) != "Literal":',
        after="    if False:",
        caught_by=_ONE_QUERY,
    ),
    Mutant(
        name="functions in WITH and in subqueries of a step's SQL are not looked at",
        rule="docs/how-to/security.md, A spec is data",
        path="spark_jobs/query/one_query.py",
        before='_items(node if kind == "collection" else node.productIterator())',
        after='_items(node if kind == "collection" else node.children())',
        caught_by=_ONE_QUERY,
    ),
    Mutant(
        name="the bodies of SQL functions that a step calls are not checked",
        rule="docs/how-to/security.md, A spec is data",
        path="spark_jobs/query/one_query.py",
        before="            _check_resolved(node, files=files)\n",
        after="            pass\n",
        caught_by=(
            "tests/spark_jobs/query/test_one_query.py::test_a_function_of_sql_that_reads_files_or_calls_java_is_refused",
        ),
    ),
    Mutant(
        name="a step's SQL is given to Spark as it is",
        rule="docs/how-to/security.md, A spec is data",
        path="spark_jobs/query/steps.py",
        before="        check_query(spark, step.sql)\n",
        after="",
        caught_by=_ONE_QUERY,
    ),
    Mutant(
        name="a name behind a comma counts as a table in every clause",
        rule="docs/explanation/decisions.md",
        path=_TABLE_NAMES,
        before="scope.expects_table = scope.lists_tables and not scope.lists_rows",
        after="scope.expects_table = True",
        caught_by=(f"{_TABLE_TESTS}::test_a_column_may_be_called_as_a_source",),
    ),
    Mutant(
        name="IS DISTINCT FROM begins a list of tables",
        rule="docs/explanation/decisions.md",
        path=_TABLE_NAMES,
        before="(scope.is_query and not self._is_comparison(index))",
        after="scope.is_query",
        caught_by=(f"{_TABLE_TESTS}::test_the_tables_of_a_query_are_those_that_sparks_parser_finds",),
    ),
    Mutant(
        name="a command in a step's SQL passes for a query where no Spark is started",
        rule="docs/how-to/security.md, A spec is data",
        path="connectors/spec/flow.py",
        before=" and first[1].lower() not in _QUERY_WORDS else",
        after=" and False else",
        caught_by=("tests/connectors/spec/test_yaml.py::test_sql_that_shows_that_it_is_no_query_is_refused",),
    ),
)
