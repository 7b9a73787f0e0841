"""Wrong lines where others may be at the other end, or have written what is shown."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_KAFKA: Final = "tests/connectors/kafka/test_impostor.py"
_LOG: Final = "tests/spark_jobs/observe/test_masked_log.py"
_VALUES: Final = "integration_tests/test_hostile_values.py"
_PRINTED: Final = "SECURITY.md, What is promised"

MUTANTS: Final = (
    Mutant(
        name="a refusal shows what a password can be guessed by",
        rule="docs/how-to/security.md, TLS and SASL to Kafka",
        path="connectors/kafka/settings.py",
        before='        return _SIGNATURES.sub("", text)\n',
        after="        return text\n",
        caught_by=(f"{_KAFKA}::test_one_that_lets_everybody_in_does_not_prove_that_it_knows_the_password",),
    ),
    Mutant(
        name="any host of the authority may pose as a broker",
        rule="docs/how-to/security.md, TLS and SASL to Kafka",
        path="connectors/kafka/security.py",
        before="    verify_host_name: bool = True\n",
        after="    verify_host_name: bool = False\n",
        caught_by=(f"{_KAFKA}::test_one_without_the_certificate_hears_nothing",),
    ),
    Mutant(
        name="a record that an error quotes writes a line of the log",
        rule=_PRINTED,
        path="spark_jobs/cli/output.py",
        before='    return text.replace("\\n", "\\n    ")\n',
        after="    return text\n",
        caught_by=(f"{_LOG}::test_no_line_of_an_error_that_a_command_prints_looks_like_one_of_the_log",),
    ),
    Mutant(
        name="the SQL of a step reads the driver's environment",
        rule="docs/how-to/security.md, A spec is data",
        path="spark_jobs/session/settings.py",
        before='    "spark.sql.variable.substitute": "false",',
        after='    "spark.sql.variable.substitute": "true",',
        caught_by=("tests/spark_jobs/query/test_one_query.py::test_a_variable_of_spark_is_the_text_that_it_is",),
    ),
    Mutant(
        name="the page takes texts for HTML",
        rule=_PRINTED,
        path="spark_jobs/page/assets/dom.js",
        before="document.createTextNode(String(child))",
        after="document.createRange().createContextualFragment(String(child))",
        caught_by=("integration_tests/test_page.py::test_what_errors_quote_of_records_is_shown_and_not_run",),
    ),
    Mutant(
        name="nobody is told that Spark shows the secret of a step",
        rule="docs/how-to/security.md, Secrets",
        path="connectors/spec/review.py",
        before='for name in ("ui", "eventLog"))',
        after='for name in ("ui",))',
        caught_by=("tests/connectors/spec/test_security.py::test_validate_names_steps_whose_secrets_spark_would_show",),
    ),
    Mutant(
        name="a record is SQL where the URL has the server read another character set",
        rule=_PRINTED,
        path="connectors/sql/mysql/connection.py",
        before="            self._read_in_utf8()\n",
        after="",
        caught_by=(
            "tests/connectors/sql/test_sessions_played.py::"
            "test_no_command_of_the_url_has_mysql_read_texts_in_another_character_set",
        ),
    ),
    Mutant(
        name="an error that no caller knows follows a request for a file",
        rule=_PRINTED,
        path="connectors/sql/mysql/connection.py",
        before="            raise err.OperationalError(CR.CR_SERVER_LOST, message)\n",
        after="            raise RuntimeError(message)\n",
        caught_by=(
            "tests/connectors/sql/test_sessions_played.py::test_a_server_that_asks_for_a_file_gets_none_at_any_door",
        ),
    ),
    Mutant(
        name="the page takes no token where a path is written in another way",
        rule=_PRINTED,
        path="spark_jobs/page/auth.py",
        before='self._refusal(scope["method"], scope["path"], ',
        after='self._refusal(scope["method"], scope["raw_path"].decode("latin-1"), ',
        caught_by=("tests/spark_jobs/page/test_security.py::test_no_detour_leads_past_the_token",),
    ),
    Mutant(
        name="a session of MySQL reads a backslash as it is",
        rule="docs/reference/sinks.md, Values",
        path="connectors/sql/mysql/engine.py",
        before='    "sql_mode": "STRICT_ALL_TABLES,',
        after='    "sql_mode": "NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,',
        caught_by=(f"{_VALUES}::test_mysql_takes_a_text_as_it_is_or_not_at_all_in_any_character_set",),
    ),
    Mutant(
        name="a session of PostgreSQL reads rows in the role's encoding",
        rule="docs/reference/sinks.md, Values",
        path="connectors/sql/postgres/engine.py",
        before='    "client_encoding": "UTF8",\n',
        after="",
        caught_by=(f"{_VALUES}::test_postgresql_takes_a_text_as_it_is_or_not_at_all",),
    ),
)
