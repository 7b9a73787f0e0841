"""Logins by tokens of AWS: when a token ends, which of its refusals are for good, and over which connections it goes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_MSK: Final = "docs/how-to/security.md, Amazon MSK by IAM"
_RDS: Final = "docs/how-to/security.md, Amazon RDS and Aurora by IAM"
_AWS: Final = "tests/connectors/test_aws_login.py"
_DATABASE: Final = "tests/connectors/sql/test_database_aws_iam.py"

MUTANTS: Final = (
    Mutant(
        name="a token outlives the credentials that have signed it",
        rule=_MSK,
        path="connectors/aws.py",
        before="    return str(token), min(token_end_ms / 1000, end)\n",
        after="    return str(token), token_end_ms / 1000\n",
        caught_by=(f"{_AWS}::test_a_token_ends_after_15_minutes_or_with_its_credentials",),
    ),
    Mutant(
        name="a client of Kafka gives its first token again when that ends",
        rule=_MSK,
        path="connectors/kafka/handles.py",
        before="            first, self._first = self._first, None\n",
        after="            first = self._first\n",
        caught_by=(f"{_AWS}::test_why_there_is_no_token_is_told_by_the_client",),
    ),
    Mutant(
        name="a handle of librdkafka is destroyed in its own thread",
        rule=_MSK,
        path="connectors/kafka/handles.py",
        before="        if threading.get_ident() in _callback_threads:\n",
        after="        if not _callback_threads:\n",
        caught_by=(
            "tests/connectors/kafka/test_handles.py"
            "::test_a_handle_that_is_found_in_its_own_thread_is_destroyed_in_another_one",
        ),
    ),
    Mutant(
        name="a fork waits for a lock of its parent's thread, or signs with the parent's credentials",
        rule=_MSK,
        path="connectors/aws.py",
        before="os.register_at_fork(after_in_child=forget_sessions)\n",
        after="",
        caught_by=(f"{_AWS}::test_a_fork_signs_with_credentials_of_its_own",),
    ),
    Mutant(
        name="brokers with too many logins at once stop the pipeline for good",
        rule=_MSK,
        path="connectors/kafka/refusals.py",
        before="    if _PASSING.search(text):\n",
        after="    if _PASSING.fullmatch(text):\n",
        caught_by=(f"{_AWS}::test_which_refusals_of_brokers_are_for_good",),
    ),
    Mutant(
        name="a login by AWS IAM among properties goes over plain text",
        rule=_MSK,
        path="connectors/kafka/settings.py",
        before="    if aws_of(properties) is not None and not is_encrypted",
        after="    if aws_of(properties) is None and not is_encrypted",
        caught_by=("tests/connectors/kafka/test_settings.py::test_a_login_by_aws_iam_among_properties",),
    ),
    Mutant(
        name="a token for a database is sent to a server that TLS does not verify",
        rule=_RDS,
        path="connectors/api/login.py",
        before="    if protection is not Protection.FULL:\n",
        after="    if protection is Protection.NONE:\n",
        caught_by=(f"{_DATABASE}::test_what_does_not_go_together_is_refused",),
    ),
    Mutant(
        name="all connections to PostgreSQL of a process share the first one's token",
        rule=_RDS,
        path="connectors/sql/postgres/serverside.py",
        before="""            options = {**options, "password": _token(login)}
""",
        after="""            options = {**options, "password": vars(_connect).setdefault("token", _token(login))}
""",
        caught_by=(f"{_DATABASE}::test_each_connection_has_a_token_of_its_own",),
    ),
    Mutant(
        name="all connections to MySQL of a process share the first one's token",
        rule=_RDS,
        path="connectors/sql/mysql/engine.py",
        before="""            named = {**named, "password": _token(login)}
""",
        after="""            named = {**named, "password": vars(_connect).setdefault("token", _token(login))}
""",
        caught_by=(f"{_DATABASE}::test_each_connection_has_a_token_of_its_own",),
    ),
)
