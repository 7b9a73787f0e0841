"""Findings of `eos doctor` as the command shows them: what to do, and never to run the command."""

from __future__ import annotations

import pytest

from connectors.api.contracts import Finding
from connectors.sql.mysql.errors import ServerError as MySqlError
from connectors.sql.mysql.errors import connector_error
from connectors.sql.postgres.errors import ServerError as PostgresError
from spark_jobs.cli.doctor import _shown_by_doctor


def _shown(of: str, remedy: str, detail: str = "found") -> Finding:
    return _shown_by_doctor(of, Finding("check", False, detail, remedy))


def test_a_remedy_does_not_point_back_at_the_command() -> None:
    assert _shown("sink s", "grant INSERT; `eos doctor` lists the rights").remedy == "grant INSERT"
    assert _shown("steps", "see spark.log; `eos doctor` checks Java; restart").remedy == "see spark.log; restart"
    assert _shown("source s", "create it, or correct `topics`").remedy == "create it, or correct `topics`"


def test_a_finding_about_head_names_its_key() -> None:
    shown = _shown("head", "correct user name and password in the url", "the url names no database")
    assert (shown.remedy, shown.detail) == (
        "correct user name and password in checkpoint.head",
        "checkpoint.head names no database",
    )
    assert _shown("sink s", "end the url with /<database>").remedy == "end the url with /<database>"


@pytest.mark.parametrize("number", [1045, 1046, 1049, 1142, 1146, 1227, 1317, 2003, 9999])
def test_each_error_of_mysql_leaves_a_remedy(number: int) -> None:
    found = connector_error("sink s", MySqlError(number, "refused"))
    _assert_remedy(found.remedy)


@pytest.mark.parametrize("state", ["28P01", "3D000", "42501", "42P01", "0A000", "55000", "08006", "XX000"])
def test_each_error_of_postgresql_leaves_a_remedy(state: str) -> None:
    found = PostgresError(state, "prepared transactions are disabled").connector_error("sink s")
    _assert_remedy(found.remedy)


def _assert_remedy(remedy: str) -> None:
    shown = _shown("sink s", remedy).remedy
    assert shown
    assert "eos doctor" not in shown
