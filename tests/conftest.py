"""Settings of all unit tests, and what several of them start."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

from integration_tests import left_out
from integration_tests.harness.markers import MARKERS
from integration_tests.harness.rotation import seed_of_run
from spark_jobs.cli.output import out
from tests import searches
from tests.object_store import bucket, hasty, store_port, wire

__all__ = ["bucket", "hasty", "store_port", "wire"]

pytest.register_assert_rewrite("connectors.testing")  # before a test imports it; eos.testing does the same

# A busy machine is no failure. Hypothesis itself would try the same examples in each run of CI.
settings.register_profile("eos", deadline=None, max_examples=searches.examples(100), derandomize=False, print_blob=True)
settings.load_profile("eos")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--searches",
        choices=("all", "none", "some"),
        default="all",
        help="which of the long ones a run takes; with `some` it takes nothing else: see tests/searches.py",
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in searches.MARKERS:
        config.addinivalue_line("markers", marker)
    for marker in MARKERS:  # mutants name integration tests, which are then imported
        config.addinivalue_line("markers", marker)
    left_out.register(config)
    seed_of_run()  # before processes of pytest-xdist begin: all of them choose the same tests


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long searches and mutants, or all other tests."""
    for each in items:
        if (long_s := searches.OF_SUITES_S.get(getattr(each, "originalname", each.name))) is not None:
            each.add_marker(pytest.mark.search(long_s))
    seed, which = seed_of_run(), config.getoption("--searches")
    if seed is None or which == "all":
        return
    searches_s = {each.nodeid: marker.args[0] for each in items if (marker := each.get_closest_marker("search"))}
    mutants = {each.nodeid for each in items if each.get_closest_marker("mutant")}
    taken = {each.nodeid for each in items} - searches_s.keys() - mutants
    if which == "some":
        taken = searches.of_run(searches_s, seed) | mutants
    omitted = dict.fromkeys(searches_s.keys() - taken, left_out.SEARCH) | dict.fromkeys(
        mutants - taken, left_out.MUTANT
    )
    left_out.recorder(config).leave_out(config, omitted)
    config.hook.pytest_deselected(items=[each for each in items if each.nodeid not in taken])
    items[:] = [each for each in items if each.nodeid in taken]


def pytest_collection_finish() -> None:
    """Keep the thousands of tests out of each search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _options_of_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options of one command stay in its process, which for a command line is the whole of it."""
    monkeypatch.setattr(out, "as_json", False)
    monkeypatch.setattr(out, "debug", False)
