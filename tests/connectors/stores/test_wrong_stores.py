"""A store with a mistake fails the suite that ships with the framework: the suite would be worth nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.connectors.stores.wrong import PREPARING_STORES, TOKEN_STORES

_PROJECT = next(each for each in Path(__file__).parents if (each / "setup.cfg").exists())
_NOT_THE_LONG_ONES = "not million and not killed and not another_process_commits and not seed and not any_order"


@pytest.mark.parametrize("name", [each.__name__ for each in (*TOKEN_STORES, *PREPARING_STORES)])
def test_a_store_with_a_mistake_fails_its_suite(name: str) -> None:
    suite = f"{Path(__file__).parent}/wrong.py::Test{name}"
    options = ["-q", "-x", "-k", _NOT_THE_LONG_ONES, "-p", "no:cacheprovider", "--timeout", "120"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", suite, *options], cwd=_PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, f"the suite passes it:\n{done.stdout[-2000:]}"
    assert "1 failed" in done.stdout, done.stdout[-2000:]
