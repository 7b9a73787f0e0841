"""What is released: version, changelog, metadata, the example in the wheel, and the script that builds it."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final

import pytest
from ruamel.yaml import YAML

from integration_tests.harness.installed import build_wheel
from spark_jobs.demo import job

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples" / "eos"


def _metadata_of_project() -> ConfigParser:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


VERSION: Final = _metadata_of_project()["metadata"]["version"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))) as opened:
        yield opened


@pytest.fixture
def metadata(wheel: zipfile.ZipFile) -> Message:
    return Parser().parsestr(wheel.read(f"eos_spark-{VERSION}.dist-info/METADATA").decode())


def test_the_newest_release_of_the_changelog_is_the_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d{2}-\d{2}\)", each) for each in headings[1:])
    assert headings[1].split()[0] == VERSION


def test_the_chart_names_the_image_of_this_version() -> None:
    chart = YAML(typ="safe").load(ROOT / "docker" / "helm" / "eos-spark" / "Chart.yaml")
    assert chart["version"] == chart["appVersion"] == VERSION


def test_the_wheel_has_the_example_of_the_demo(wheel: zipfile.ZipFile) -> None:
    for name in ("chain.py", "pipeline-sqlite.yaml"):
        assert wheel.read(f"spark_jobs/demo/example/{name}") == (EXAMPLE / name).read_bytes()
    assert job.EXAMPLE == EXAMPLE  # of a checkout


def test_the_wheel_has_no_other_package(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"connectors", "eos", "spark_jobs", "twophase", "wal", f"eos_spark-{VERSION}.dist-info"}


def test_every_module_of_the_packages_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    listed = ["git", "ls-files", "eos", "wal", "twophase", "connectors", "spark_jobs"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert sorted({name for name in names if (ROOT / name).exists()} - set(wheel.namelist())) == []


def test_the_long_description_has_no_relative_link(metadata: Message) -> None:
    text = str(metadata.get_payload())
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    images = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text)
    assert images
    assert all(each.startswith(f"https://raw.githubusercontent.com/eos-spark/eos/v{VERSION}/") for each in images)


def test_links_of_the_long_description_lead_to_files(metadata: Message) -> None:
    """A link names the tag of this version, whose files are those of this commit."""
    paths = re.findall(rf"eos-spark/eos/(?:blob/)?v{re.escape(VERSION)}/([^)#\s]+)", str(metadata.get_payload()))
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_metadata(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {"Source", "Documentation", "Changelog", "Issues"} <= {
        each.split(",")[0] for each in metadata.get_all("Project-URL", [])
    }
    pythons = {each.rpartition(" ")[2] for each in metadata.get_all("Classifier", []) if ":: 3." in each}
    assert metadata["Requires-Python"] == f">={min(pythons, key=lambda each: int(each.split('.')[1]))}"


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["now"], 2), (["--check", "now"], 2)])
def test_the_script(arguments: list[str], code: int) -> None:
    ended = subprocess.run([ROOT / "scripts" / "release", *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert "Usage: scripts/release" in ended.stdout


def test_the_tools_of_the_script_are_known_by_digest() -> None:
    text = (ROOT / "scripts" / "release.lock").read_text()
    names = {line for line in (ROOT / "scripts" / "release.in").read_text().splitlines() if line[0] != "#"}
    assert names <= set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))
    assert all("--hash=sha256:" in block for block in re.split(r"^(?=\w[\w.-]*==)", text, flags=re.MULTILINE)[1:])


def test_the_check_of_a_version() -> None:
    """It needs git's tags, and passes at a commit without one."""
    ended = subprocess.run(
        [ROOT / "scripts" / "release", "--check"], capture_output=True, text=True, check=False, env={"PATH": _path()}
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    wrong = {"PATH": _path(), "GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": "v9.9.9"}
    ended = subprocess.run(
        [ROOT / "scripts" / "release", "--check"], capture_output=True, text=True, check=False, env=wrong
    )
    assert ended.returncode == 1
    assert f"the tag v9.9.9 names another version than setup.cfg, which has {VERSION}" in ended.stderr


def _path() -> str:
    return f"{Path(sys.executable).parent}:/usr/bin:/bin"
