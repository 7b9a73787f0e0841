"""The list of the image's packages, their licences, and the bill of materials."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

_ROOT = Path(__file__).parents[2]
_SCRIPT = _ROOT / "scripts" / "packages"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("packages", str(_SCRIPT))
    spec = importlib.util.spec_from_loader("packages", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["packages"] = module  # where its dataclass looks itself up
    loader.exec_module(module)
    return module


def test_every_package_of_the_image_is_listed_with_an_allowed_licence(tmp_path: Path) -> None:
    written = tmp_path / "sbom.json"
    ended = subprocess.run([_SCRIPT, "--sbom", written], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    locked = [line for line in (_ROOT / "docker" / "requirements.lock").read_text().splitlines() if "==" in line]
    assert len(ended.stdout.splitlines()) == len(locked) > 30
    assert "pymysql 1." in ended.stdout
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(written.read_text()) is None
    components = {each["name"]: each for each in json.loads(written.read_text())["components"]}
    assert len(components) == len(locked)
    assert components["pyarrow"]["purl"].startswith("pkg:pypi/pyarrow@")
    assert len(components["pyarrow"]["externalReferences"][0]["hashes"][0]["content"]) == 64


@pytest.mark.parametrize(
    ("said", "found", "allowed"),
    [
        ({"license_expression": "MIT"}, "MIT", True),
        ({"license_expression": "MIT AND GPL-3.0-only"}, "MIT AND GPL-3.0-only", False),
        ({"license_expression": "GPL-3.0-only OR (MIT AND Zlib)"}, "GPL-3.0-only OR (MIT AND Zlib)", True),
        ({"classifier": ["License :: OSI Approved :: MIT License"], "license": "GPL"}, "MIT", True),
        ({"classifier": ["License :: Other"], "license": ""}, "Other", False),
        ({"license": "BSD License\nof much text"}, "BSD-3-Clause", True),
        ({}, "none", False),
    ],
)
def test_a_licence(script: ModuleType, said: dict[str, object], found: str, *, allowed: bool) -> None:
    assert script.licence(said) == found
    assert script.Package("a", "1", found, ()).is_allowed is allowed


def test_a_licence_that_is_not_allowed_fails(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "_ALLOWED", {"MIT"})
    assert script.main([]) == 1
    assert "packages: psycopg " in capsys.readouterr().err
    assert script.main(["--what"]) == 2
