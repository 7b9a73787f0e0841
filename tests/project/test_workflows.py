"""The files for contributors: workflows with pinned actions and least permissions, templates, hooks, the citation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

ROOT: Final = Path(__file__).parents[2]
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
_PINNED: Final = re.compile(r"uses: (?P<action>[\w./-]+)@(?P<commit>[0-9a-f]{40}) # v\d+\.\d+\.\d+")
_UNTRUSTED: Final = re.compile(r"\$\{\{\s*(?:github\.(?:event|head_ref|ref_name)|inputs)")


def _read(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def _jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in _read(path)["jobs"].items():
            yield f"{path.name}: {name}", job


JOBS: Final = dict(_jobs())


def _commands() -> Iterator[str]:
    for job in JOBS.values():
        for step in job["steps"]:
            yield from str(step.get("run", "")).splitlines()


def test_the_workflows_are_there() -> None:
    assert [path.stem for path in WORKFLOWS] == ["audit", "docs", "release", "tests"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_a_commit(path: Path) -> None:
    used = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses:" in line]
    assert used
    assert [line for line in used if not _PINNED.fullmatch(line)] == []


def test_an_action_has_one_commit() -> None:
    found = {match["action"]: set[str]() for path in WORKFLOWS for match in _PINNED.finditer(path.read_text())}
    for path in WORKFLOWS:
        for match in _PINNED.finditer(path.read_text()):
            found[match["action"]].add(match["commit"])
    assert {action for action, commits in found.items() if len(commits) != 1} == set()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_read_the_repository_at_most(path: Path) -> None:
    """A job that writes says so, and why."""
    assert _read(path)["permissions"] in ({}, {"contents": "read"})
    assert "pull_request_target" not in path.read_text()
    for line in path.read_text().splitlines():
        assert not re.search(r": write$", line), f"{line.strip()}: write why"


def test_who_may_write() -> None:
    writing = {name: job["permissions"] for name, job in JOBS.items() if "write" in str(job.get("permissions"))}
    assert writing == {
        "docs.yml: publish": {"contents": "write"},
        "release.yml: notes": {"contents": "write"},
        "release.yml: publish": {"id-token": "write"},
    }


@pytest.mark.parametrize("name", JOBS)
def test_a_job_ends_and_keeps_no_credentials(name: str) -> None:
    job = JOBS[name]
    assert job["timeout-minutes"] <= 120
    checkouts = [step for step in job["steps"] if str(step.get("uses", "")).startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_no_command_contains_text_of_a_stranger() -> None:
    assert [line for line in _commands() if _UNTRUSTED.search(line)] == []


def test_commands_name_scripts_of_this_repository() -> None:
    named = {match for line in _commands() for match in re.findall(r"(?<![\w/])scripts/[a-z]+", line)}
    assert {"scripts/test", "scripts/check", "scripts/release", "scripts/audit"} <= named
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_unit_tests_run_on_each_python_that_is_promised() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    promised = re.findall(r"Python :: (3\.\d+)$", config["metadata"]["classifiers"], re.MULTILINE)
    assert JOBS["tests.yml: unit"]["strategy"]["matrix"]["python"] == promised


def test_templates_are_forms() -> None:
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    for path in forms:
        form = _read(path)
        assert {"name", "description", "body"} <= form.keys()
        identities = [field["id"] for field in form["body"] if field["type"] != "markdown"]
        assert len(identities) == len(set(identities)) > 1
    assert len(forms) == 2


def test_hooks_run_tools_of_the_environment() -> None:
    hooks = [hook for repository in _read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repository["hooks"]]
    for hook in hooks:
        tool = hook["entry"].split()[0]
        assert tool.startswith(".venv/bin/") or (ROOT / tool).exists()
    assert {"ruff-check", "ruff-format", "mypy"} <= {hook["id"] for hook in hooks}


def test_the_container_for_development_sets_the_project_up() -> None:
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert settings["postCreateCommand"].split()[0] == "scripts/setup"


def test_the_citation_is_of_the_newest_release() -> None:
    citation = _read(ROOT / "CITATION.cff")
    newest = re.findall(r"^## (\d\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert (citation["version"], str(citation["date-released"])) == newest
