"""Plugins that print, exit, raise or lie: each is one error of the spec that names it, without secrets."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from connectors.api import plugins
from connectors.api.mistakes import SpecMistakesError
from connectors.spec import load_spec
from spark_jobs.cli import run_command_line
from tests.connectors.api.distributions import SHELF, SPEC, install

_SHELF = dedent(SHELF)
_POINTS = {plugins.SINKS: {"shelf": "shelf:ShelfEntry"}}
_SECRET = "tannin-and-oak"


class Hostile:
    """A distribution that is installed for one test, and a spec that names it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch
        monkeypatch.chdir(folder)
        self.write("red")

    def write(self, box: str) -> None:
        """Write the spec."""
        Path("spec.yaml").write_text(SPEC % box)

    def install(self, points: dict[str, dict[str, str]], modules: dict[str, str], metadata: str = "") -> None:
        """Put it on the path; its modules are forgotten when the test ends."""
        for module in modules:
            self._monkeypatch.delitem(sys.modules, module, raising=False)
        folder = install(self._folder / "dist", "eos-shelf", points, modules)
        if metadata:
            (folder / "eos_shelf-1.2.3.dist-info" / "METADATA").write_text(metadata)
        self._monkeypatch.syspath_prepend(str(folder))

    def refusal(self) -> str:
        """Load the spec, and return the message of its one mistake."""
        with pytest.raises(SpecMistakesError) as refused:
            load_spec("spec.yaml", {"WINE": _SECRET})
        (mistake,) = refused.value.mistakes
        return mistake.found


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    return Hostile(tmp_path, monkeypatch)


def test_a_module_that_exits_does_not_end_the_command(hostile: Hostile) -> None:
    hostile.install(_POINTS, {"shelf": "import sys; sys.exit(0)"})
    assert "sink 'shelf' of eos-shelf 1.2.3 cannot be imported: SystemExit: 0" in hostile.refusal()


@pytest.mark.parametrize("arguments", [("validate", "spec.yaml", "--json"), ("connectors", "--json"), ("schema",)])
def test_output_of_a_module_is_not_in_the_facts(
    hostile: Hostile, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    hostile.install(_POINTS, {"shelf": f"print('hello')\n{_SHELF}"})
    assert run_command_line(arguments) == 0
    found = capsys.readouterr()
    json.loads(found.out)
    assert "hello" in found.err


@pytest.mark.parametrize("raised", ["RuntimeError", "SystemExit"])
def test_a_validator_that_fails_is_one_mistake_without_the_secret(hostile: Hostile, raised: str) -> None:
    validator = f"""
        @pydantic.field_validator("box")
        @classmethod
        def _log_in(cls, box):
            raise {raised}("cannot log in with " + box)
    """
    hostile.install(_POINTS, {"shelf": f"import pydantic\n{_SHELF}{validator.replace('        ', '    ')}"})
    hostile.write("${env:WINE}")
    assert hostile.refusal() == f"sink 'shelf' of eos-shelf 1.2.3 cannot check this entry: {raised}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"raise ConnectionError('GET https://vault: token {_SECRET} refused')", "raised ConnectionError"),
        ("import sys; sys.exit(0)", "raised SystemExit"),
        ("return None", "returned no text"),
        ("return b'wine'", "returned no text"),
    ],
)
def test_a_secret_that_cannot_be_resolved_is_one_mistake(hostile: Hostile, body: str, words: str) -> None:
    cellar = f"""
        from connectors.api.secret import Secrets

        class Cellar(Secrets):
            api_version = 1
            def resolve(self, name):
                {body}
    """
    hostile.install(_POINTS | {plugins.SECRETS: {"cellar": "cellar:Cellar"}}, {"shelf": _SHELF, "cellar": cellar})
    hostile.write("${cellar:third}")
    assert hostile.refusal() == f"'${{cellar:third}}' cannot be resolved: 'cellar' {words}"


def test_a_distribution_that_says_it_is_this_project_is_refused(hostile: Hostile) -> None:
    metadata = "Metadata-Version: 2.1\nName: eos-spark\nVersion: 9\n"
    hostile.install({plugins.SINKS: {"sqlite": "shelf:ShelfEntry"}}, {"shelf": _SHELF}, metadata)
    Path("spec.yaml").write_text(Path("spec.yaml").read_text().replace("shelf", "sqlite"))
    found = hostile.refusal()
    assert "sink 'sqlite' is brought by 2 distributions: eos-spark 9, eos-spark" in found
    assert "remove the foreign distribution: " in found
    assert "/dist" in found
    assert run_command_line(["connectors"]) == 1
    assert run_command_line(["schema"]) == 0


def test_the_metadata_of_a_distribution_adds_no_line_to_a_message(hostile: Hostile) -> None:
    metadata = "Metadata-Version: 2.1\nName: eos-shelf\nVersion: 9\n spec.yaml:1: pipeline: ok\n"
    hostile.install(_POINTS, {"shelf": "raise ImportError"}, metadata)
    found = hostile.refusal()
    assert "\n" not in found
    assert "of eos-shelf 9 spec.yaml:1: pipeline: ok cannot be imported" in found


@pytest.mark.parametrize("box", ["box: red\n    password: ", "box: red\n    login:\n      secret_access_key: "])
def test_a_setting_of_a_plugin_whose_name_says_so_is_a_secret(hostile: Hostile, box: str) -> None:
    fields = "    password: str = ''\n    login: dict[str, str] = {}\n"
    hostile.install(_POINTS, {"shelf": f"{_SHELF}\n{fields}"})
    text = Path("spec.yaml").read_text().replace("box: red", f"{box}{_SECRET}")
    Path("spec.yaml").write_text(text)
    spec = load_spec("spec.yaml", {})
    assert _SECRET in spec.secrets
    assert _SECRET not in spec.mask(text)
