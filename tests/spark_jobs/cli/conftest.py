"""The spec and the table that commands of stored state work on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.spark_jobs.cli.test_status import SPEC


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE t (value TEXT)")
    path = tmp_path / "orders.yaml"
    path.write_text(SPEC)
    return path
