"""A store with a mistake fails the suite that ships with the framework: the suite would be worth nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.connectors.stores.wrong import PREPARING_STORES, TOKEN_STORES

_PROJECT = next(each for each in Path(__file__).parents if (each / "setup.cfg").exists())
_CASES = [(f"Test{store.__name__}", f"test_{test}") for store, tests in TOKEN_STORES.items() for test in tests]
_CASES += [(f"Test{store.__name__}", f"test_{test}") for store, tests in PREPARING_STORES.items() for test in tests]


@pytest.fixture(scope="module")
def outcomes() -> Mapping[tuple[str, str], str]:
    """Run all cases in one process; return PASSED, FAILED or ERROR of each."""
    file = f"{Path(__file__).parent}/wrong.py"
    cases = [f"{file}::{store}::{test}" for store, test in _CASES]
    options = ["-q", "-rA", "--tb=line", "-p", "no:cacheprovider", "--timeout", "120"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *cases, *options], cwd=_PROJECT, capture_output=True, text=True, check=False
    )
    found = re.findall(r"^([A-Z]+) \S+::(\w+)::(\w+)", done.stdout, re.MULTILINE)
    assert found, done.stdout[-3000:] + done.stderr[-3000:]
    return {(store, test): outcome for outcome, store, test in found}


@pytest.mark.parametrize(("store", "test"), _CASES)
def test_a_store_with_a_mistake_fails_its_suite(outcomes: Mapping[tuple[str, str], str], store: str, test: str) -> None:
    """tests/connectors/stores/test_examples.py runs the same tests on stores without a mistake."""
    assert outcomes[store, test] == "FAILED"
