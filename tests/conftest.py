"""Settings of all unit tests, and what several of them start."""

from __future__ import annotations

import pytest
from hypothesis import settings

from integration_tests import left_out
from integration_tests.harness.markers import MARKERS
from integration_tests.harness.rotation import seed_of_run
from spark_jobs.cli.output import out
from tests.object_store import bucket, hasty, s3_port, wire

__all__ = ["bucket", "hasty", "s3_port", "wire"]

pytest.register_assert_rewrite("connectors.testing")  # before a test imports it; eos.testing does the same

settings.register_profile("eos", deadline=None)  # a busy machine is no failure
settings.load_profile("eos")


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:  # mutants name integration tests, which are then imported
        config.addinivalue_line("markers", marker)
    left_out.register(config)
    seed_of_run()  # before processes of pytest-xdist begin: all of them choose the same tests


@pytest.fixture(autouse=True)
def _options_of_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options of one command stay in its process, which for a command line is the whole of it."""
    monkeypatch.setattr(out, "as_json", False)
    monkeypatch.setattr(out, "debug", False)
