"""Plugins of other distributions: what works, and the one error of each that does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from connectors.api import plugins
from connectors.spec import load_spec
from spark_jobs.cli import run_command_line
from tests.connectors.api.distributions import SHELF, SPEC, install

_SPEC = SPEC % "red"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(_SPEC)
    Path("other.yaml").write_text(
        _SPEC.replace(
            "    connector: shelf\n    box: red",
            "    connector: sqlite\n    path: x.db\n    table: t\n    commit: write-ahead-log",
        )
    )


class Plugins:
    """Distributions that are installed for one test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder, self._monkeypatch, self._capsys = folder, monkeypatch, capsys

    def install(self, name: str, points: dict[str, dict[str, str]], **modules: str) -> None:
        """Put a distribution on the path; its modules are forgotten when the test ends."""
        for module in modules:
            self._monkeypatch.delitem(sys.modules, module, raising=False)
        self._monkeypatch.syspath_prepend(str(install(self._folder / name, name, points, modules)))

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run a command and return its exit code, and all that it printed."""
        self._capsys.readouterr()
        code = run_command_line(arguments)
        found = self._capsys.readouterr()
        return code, " ".join((found.out + found.err).split())

    def facts(self, *arguments: str) -> Any:
        """Run a command and return the JSON that it prints."""
        self._capsys.readouterr()
        run_command_line(arguments)
        return json.loads(self._capsys.readouterr().out)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Plugins:
    return Plugins(tmp_path, monkeypatch, capsys)


def test_a_connector_of_another_distribution_is_one_like_any(world: Plugins) -> None:
    world.install("eos-shelf", {plugins.SINKS: {"shelf": "shelf:ShelfEntry"}}, shelf=SHELF)
    facts = world.facts("validate", "spec.yaml", "--json")
    assert facts["sinks"][0]["writes"] == "shelf box red, write-ahead-log"
    assert facts["guarantees"][0]["promise"] == "exactly-once: every box stands there once"
    schema = world.facts("schema")
    assert schema["$defs"]["ShelfEntry"]["properties"]["box"]["description"] == "The box that takes the rows."
    (listed,) = [each for each in world.facts("connectors", "--json")["plugins"] if each["name"] == "shelf"]
    assert (listed["distribution"], listed["version"], listed["error"]) == ("eos-shelf", "1.2.3", "")
    assert listed["guarantees"] == {"write-ahead-log": "exactly-once: every box stands there once"}
    Path("spec.yaml").write_text(_SPEC.replace("box: red", "bx: red"))
    code, told = world.run("validate", "spec.yaml")
    assert code == 2
    assert "spec.yaml:10: sinks[0].bx: unknown key 'bx'; did you mean 'box'?" in told


def test_a_connector_that_takes_no_dead_letters_says_so(world: Plugins) -> None:
    world.install("eos-shelf", {plugins.SINKS: {"shelf": "shelf:ShelfEntry"}}, shelf=SHELF)
    Path("spec.yaml").write_text(f"{_SPEC}dead_letter: {{connector: shelf, box: blue}}\n")
    assert "dead_letter.connector: 'shelf' takes no dead letters" in world.run("validate", "spec.yaml")[1]


BROKEN = {
    "import": ("raise ImportError('no module of the name cupboard')", "cannot be imported: ImportError: no module of"),
    "attribute": ("", "cannot be imported: AttributeError"),
    "no entry": (
        "class ShelfEntry: api_version = 1",
        "cannot be used: shelf:ShelfEntry is not a subclass",
    ),
    "version": (
        SHELF.replace("[int] = 1", "[int] = 2"),
        "was written for version 2 of the plugin API",
    ),
    "version as text": (
        SHELF.replace("ClassVar[int] = 1", 'ClassVar[str] = "1"'),
        "was written for version 1 of the plugin API",
    ),
    "import of a test": (
        "import pytest; pytest.skip('not here', allow_module_level=True)",
        "cannot be imported: Skipped",
    ),
    "error without a text": (
        "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd",
        "cannot be imported: Odd",
    ),
    "error of 10 MB": ("raise ValueError('x' * 10_000_000)", "cannot be imported: ValueError: xxx"),
    "name": (
        f"{SHELF}        name: int = 1",
        "cannot be imported: TypeError: the field 'name' of ShelfEntry is not a text",
    ),
    "connector": (
        SHELF.replace('Literal["shelf"]', "int"),
        "cannot be imported: TypeError: the field 'connector' of ShelfEntry is not a text",
    ),
    "commit": (
        SHELF.replace('commit: Literal["write-ahead-log"] = "write-ahead-log"', "commit: bool = True"),
        "cannot be imported: TypeError: the field 'commit' of ShelfEntry is not a text",
    ),
    "alias of a key": (
        SHELF.replace("box: str", 'box: str = __import__("pydantic").Field(alias="name")'),
        "cannot be imported: TypeError: the field 'box' of ShelfEntry has the key 'name' of the core",
    ),
    "from": (
        f"{SHELF}        from_: str",
        "cannot be imported: TypeError: the field 'from_' of ShelfEntry is not a text",
    ),
    "no version": (SHELF.replace("api_version: ClassVar[int] = 1", ""), "was written for version None of the plugin"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_one_that_cannot_be_used_is_one_error_and_breaks_no_other_spec(world: Plugins, case: str) -> None:
    text, words = BROKEN[case]
    world.install("eos-shelf", {plugins.SINKS: {"shelf": "shelf:ShelfEntry"}}, shelf=text)
    code, told = world.run("validate", "spec.yaml")
    assert code == 2
    assert told.count("spec.yaml:") == 1
    assert f"spec.yaml:9: sinks[0].connector: sink 'shelf' of eos-shelf 1.2.3 {words}" in told
    assert "install a version of eos-shelf for eos-spark" in told
    assert world.run("validate", "other.yaml")[0] == 0
    assert world.run("schema")[0] == 0
    code, told = world.run("connectors")
    assert code == 1
    assert "pip uninstall eos-shelf" in told.replace("│ ", "").replace("  ", " ") or "eos-shelf" in told
    (listed,) = [each for each in world.facts("connectors", "--json")["plugins"] if each["error"]]
    assert words in listed["error"]
    assert listed["remedy"].startswith("install a version of eos-shelf")


def test_a_name_that_is_taken_is_refused_where_it_is_used(world: Plugins) -> None:
    entry = {plugins.SINKS: {"mysql": "shelf:ShelfEntry"}}
    world.install("eos-shelf", entry, shelf=SHELF)
    mysql = "connector: mysql\n    url: mysql+pymysql://u:p@h/d\n    table: t\n    commit: two-phase"
    Path("spec.yaml").write_text(_SPEC.replace("connector: shelf\n    box: red", mysql))
    code, told = world.run("validate", "spec.yaml")
    assert code == 2
    assert "sink 'mysql' is brought by 2 distributions: " in told
    assert "eos-shelf 1.2.3" in told
    assert "eos-spark" in told
    assert "pip uninstall eos-shelf" in told
    assert world.run("validate", "other.yaml")[0] == 0
    assert sorted(each["distribution"] for each in world.facts("connectors", "--json")["plugins"] if each["error"]) == [
        "eos-shelf",
        "eos-spark",
    ]


def test_two_plugins_of_one_name(world: Plugins) -> None:
    entry = {plugins.SINKS: {"shelf": "shelf:ShelfEntry"}}
    world.install("eos-shelf", entry, shelf=SHELF)
    world.install("another-shelf", entry, shelf=SHELF)
    told = world.run("validate", "spec.yaml")[1]
    assert "brought by 2 distributions: another-shelf 1.2.3, eos-shelf 1.2.3; uninstall all but one" in told
    assert world.run("validate", "other.yaml")[0] == 0


def test_a_name_that_nothing_brings(world: Plugins) -> None:
    code, told = world.run("validate", "spec.yaml")
    assert code == 2
    assert "sinks[0].connector: wrong value: 'shelf'; allowed: kafka, mariadb, mysql, postgresql, print, sqlite" in told


def test_a_plugin_is_imported_only_where_a_spec_names_it(world: Plugins) -> None:
    world.install("eos-shelf", {plugins.SINKS: {"shelf": "shelf:ShelfEntry"}}, shelf=SHELF)
    load_spec(Path("other.yaml"), {})
    assert "shelf" not in sys.modules
    load_spec(Path("spec.yaml"), {})
    assert "shelf" in sys.modules


def test_secrets_and_formats_of_another_distribution(world: Plugins) -> None:
    world.install(
        "eos-cellar",
        {plugins.SECRETS: {"cellar": "cellar:Cellar"}, plugins.FORMATS: {"reversed": "cellar:ReversedEntry"}},
        cellar='''
            from typing import ClassVar, Literal

            from connectors.api.decoding import Format
            from connectors.api.format import FormatEntry
            from connectors.api.secret import Secrets, UnresolvedError
            from connectors.formats.plain import StringFormat


            class Cellar(Secrets):
                """`${cellar:shelf}`."""

                api_version: ClassVar[int] = 1

                def resolve(self, name: str) -> str:
                    if name != "third":
                        raise UnresolvedError(f"the cellar has no shelf {name}", allowed=("${cellar:third}",))
                    return "wine-of-1961"


            class ReversedEntry(FormatEntry):
                """`format: {type: reversed}`."""

                api_version: ClassVar[int] = 1
                type: Literal["reversed"]

                def build(self) -> Format:
                    return StringFormat()
        ''',
    )
    text = Path("other.yaml").read_text().replace("type: string", "type: reversed")
    Path("other.yaml").write_text(text.replace("topics: [orders]", 'topics: [orders], group_id: "${cellar:third}"'))
    spec = load_spec(Path("other.yaml"), {})
    assert "wine-of-1961" in spec.secrets
    assert "reversed" in spec.sources[0].where
    Path("other.yaml").write_text(text.replace("topics: [orders]", 'topics: [orders], group_id: "${cellar:first}"'))
    assert "the cellar has no shelf first; allowed: ${cellar:third}" in world.run("validate", "other.yaml")[1]


def test_secrets_that_cannot_be_imported_are_one_error(world: Plugins) -> None:
    world.install("eos-cellar", {plugins.SECRETS: {"cellar": "cellar:Cellar"}}, cellar="raise OSError('locked')")
    Path("other.yaml").write_text(Path("other.yaml").read_text().replace("[orders]", '["${cellar:x}"]'))
    told = world.run("validate", "other.yaml")[1]
    assert "secret 'cellar' of eos-cellar 1.2.3 cannot be imported: OSError: locked; install a version of" in told


@pytest.mark.parametrize("sink", ["sqlite", "mysql", "postgresql", "kafka"])
def test_a_spec_is_validated_without_a_client_or_driver(sink: str) -> None:
    code = (
        "import sys; from spark_jobs.cli import run_command_line as run;"
        f"assert run(['init', 'new.yaml', '--format', 'string', '--sink', {sink!r}]) == 0;"
        "assert run(['validate', 'new.yaml']) == 0;"
        "found = {'confluent_kafka', 'sqlalchemy', 'pymysql', 'psycopg', 'pyspark'} & sys.modules.keys();"
        "assert not found, found"
    )
    addresses = {"mysql": "mysql+pymysql://u:p@h/d", "postgresql": "postgresql://u:p@h/d", "sqlite": "x.db"}
    environ = {"KAFKA": "a:1", "TARGET": "a:1", "DATABASE": addresses.get(sink, ""), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_type_without_a_schema_affects_no_other_plugin(world: Plugins) -> None:
    odd = """
        import pydantic
        from pydantic_core import core_schema

        class Odd:
            @classmethod
            def __get_pydantic_core_schema__(cls, source, handler):
                return core_schema.no_info_plain_validator_function(lambda value: value)
    """
    text = dedent(odd) + dedent(SHELF).replace("box: str", "box: Odd")
    world.install("eos-shelf", {plugins.SINKS: {"shelf": "shelf:ShelfEntry"}}, shelf=text)
    schema = world.facts("schema")
    assert "ShelfEntry" not in schema["$defs"]
    assert "SqliteEntry" in schema["$defs"]


def test_promises_of_another_type_are_one_line_of_the_list(world: Plugins) -> None:
    text = dedent(SHELF).replace('] = {"write-ahead-log": "exactly-once: every box stands there once"}', "] = None")
    world.install("eos-shelf", {plugins.SINKS: {"shelf": "shelf:ShelfEntry"}}, shelf=text)
    (listed,) = [each for each in world.facts("connectors", "--json")["plugins"] if each["error"]]
    assert listed["error"] == "sink 'shelf' of eos-shelf 1.2.3: `promises` is a NoneType"
