"""What the audit of dependencies says of what it was told, and of what it was not."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _audit() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "audit"
    loader = importlib.machinery.SourceFileLoader("audit", str(path))
    spec = importlib.util.spec_from_loader("audit", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


CLEAN = {"name": "a", "version": "1", "vulns": []}
OWN = {"name": "eos-spark", "skip_reason": "not on PyPI"}
SKIPPED = {"name": "b", "skip_reason": "not found"}
BAD = {"name": "c", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}


@pytest.mark.parametrize(
    ("packages", "code", "strict", "said"),
    [
        ([CLEAN, OWN], 0, 0, "nothing is known against 1 packages"),
        ([CLEAN, BAD], 1, 1, "c 2: CVE-1, repaired in 3"),
        ([BAD, SKIPPED], 1, 1, "c 2: CVE-1"),
        ([SKIPPED, OWN], 0, 2, "NOTHING WAS CHECKED"),
        ([CLEAN, SKIPPED], 0, 2, "only 1 of 2 packages were asked about"),
        ([], 0, 2, "NOTHING WAS CHECKED"),
    ],
)
def test_what_was_not_asked_about_is_not_called_clean(
    packages: list[dict[str, Any]], code: int, strict: int, said: str
) -> None:
    verdict = _audit().verdict
    assert said in " ".join(verdict(packages, strict=False)[1])
    assert (verdict(packages, strict=False)[0], verdict(packages, strict=True)[0]) == (code, strict)
