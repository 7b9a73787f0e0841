"""The versions in .venv are those of constraints.txt, so that a new version of a dependency shows as a change."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
NOT_PINNED = {"pip", "eos-spark"}


def _pinned(lines: str) -> dict[str, str]:
    """Name -> version, as far as this Python is concerned."""
    read = [Requirement(line) for line in lines.splitlines() if line and not line.startswith("#")]
    here = [each for each in read if each.marker is None or each.marker.evaluate()]
    pins: dict[str, str] = {canonicalize_name(each.name): re.sub("^==", "", str(each.specifier)) for each in here}
    assert len(pins) == len(here), "a name stands twice"
    return pins


def _needed() -> dict[str, str]:
    """Name -> version of everything that eos-spark[test,dev] needs, and what that needs. Other packages are nobody's
    concern: a developer may have installed them."""
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()

    def follow(name: str, extras: frozenset[str]) -> None:
        if (name, extras) in seen:
            return
        seen.add((name, extras))
        distribution = metadata.distribution(name)
        found[name] = distribution.version
        for each in _requirements(distribution.requires or [], extras):
            follow(canonicalize_name(each.name), frozenset(each.extras))

    follow("eos-spark", frozenset({"test", "dev"}))
    return {name: version for name, version in found.items() if name not in NOT_PINNED}


def _requirements(texts: list[str], extras: frozenset[str]) -> Iterator[Requirement]:
    for each in map(Requirement, texts):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield each


def test_each_package_of_the_environment_is_the_one_that_is_pinned() -> None:
    needed, pinned = _needed(), _pinned((ROOT / "constraints.txt").read_text())
    assert len(needed) > 100
    different = {
        name: (needed.get(name, "not needed"), pinned.get(name, "not pinned"))
        for name in sorted({*needed, *pinned})
        if needed.get(name) != pinned.get(name)
    }
    assert not different, f"(in .venv, in constraints.txt): run scripts/setup or scripts/constraints: {different}"


_LOCKED = re.compile(r"^([\w.-]+)==([^ ;]+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


@pytest.mark.parametrize(("name", "at_least"), [("requirements.lock", 100), ("docker/requirements.lock", 30)])
def test_what_is_installed_is_known_by_digest(name: str, at_least: int) -> None:
    """In the versions of constraints.txt."""
    text = (ROOT / name).read_text()
    pinned = _pinned((ROOT / "constraints.txt").read_text())
    locked = {canonicalize_name(package): version for package, version, _ in _LOCKED.findall(text)}
    assert len(locked) == sum("==" in line for line in text.splitlines()) >= at_least
    assert {package: version for package, version in locked.items() if pinned.get(package) != version} == {}


def test_all_that_the_environment_needs_is_locked() -> None:
    locked = {canonicalize_name(package) for package, _, _ in _LOCKED.findall((ROOT / "requirements.lock").read_text())}
    assert _needed().keys() - locked == set()


def test_a_marker_tells_which_python_a_line_is_of() -> None:
    lines = '# head\na==1; python_version < "3.0"\na==2; python_version >= "3.0"\nB_c==3\n'
    assert _pinned(lines) == {"a": "2", "b-c": "3"}
    with pytest.raises(AssertionError, match="twice"):
        _pinned("a==1\nA==2\n")


def _script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("constraints", str(ROOT / "scripts" / "constraints"))
    spec = importlib.util.spec_from_loader("constraints", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_what_the_script_writes() -> None:
    wheel, source = {"url": "https://x/a-1-py3-none-any.whl"}, {"url": "https://x/pyspark-4.tar.gz"}
    folder = {"url": "file:///x", "dir_info": {"editable": True}}
    report = {
        "install": [
            {"metadata": {"name": name, "version": version}, "download_info": info}
            for name, version, info in [
                ("eos-spark", "0.1.0", folder),
                ("pyspark", "4", source),
                ("A", "1", wheel),
                ("numpy", "9", wheel),
                ("pip", "26", wheel),
            ]
        ]
    }
    found = _script().resolved(report)
    assert found == {"pyspark": ("4", False), "A": ("1", True), "numpy": ("9", True)}
    by_hand = ['numpy==8; python_version < "3.14"', 'numpy==9; python_version >= "3.14"']
    before = ["# head; a comment", "A==0", "gone==1", *by_hand]
    assert _script().merged(before, found) == ["A==1", *by_hand, "pyspark==4"]


def test_its_oldest_python_is_that_of_the_package() -> None:
    assert f"python_requires = >={_script()._OLDEST}\n" in (ROOT / "setup.cfg").read_text()


def test_the_script_takes_no_arguments() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "constraints")]
    assert subprocess.run([*script, "--help"], capture_output=True, check=True, text=True).stdout.count("Usage") == 1
    assert subprocess.run([*script, "now"], capture_output=True, check=False).returncode == 2
