"""The documentation site: its navigation, its links, and the environment that builds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue
from ruamel.yaml import YAML

from docsite.__main__ import GENERATED
from docsite.pages import PROJECT_PAGES, ROOT

PAGES = [
    *(ROOT / name for name in PROJECT_PAGES),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_LINK = re.compile(r"\]\(([^()#\s]*)(?:#([^()\s]*))?\)")
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def navigation() -> list[str]:
    config = YAML().load((ROOT / "mkdocs.yml").read_text())
    return list(_paths(config["nav"]))


def _paths(node: JsonValue) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _paths(each)


def test_each_page_is_in_the_navigation_once() -> None:
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert written & GENERATED.keys() == {"reference/keys.md"}
    assert sorted(navigation()) == sorted({*written, *PROJECT_PAGES.values(), *GENERATED})


def anchors(page: str) -> set[str]:
    """As GitHub and the site name the headings of a page."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"^ *```.*?^ *```$", "", page, flags=re.M | re.S), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return names


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_between_files_of_the_repository_has_its_file_and_heading(path: Path) -> None:
    """The build checks those of the site; these are the files as a checkout has them."""
    for link, anchor in _LINK.findall(_CODE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        file = (path.parent / link).resolve() if link else path
        assert file.exists(), link
        if anchor:
            assert anchor in anchors(file.read_text()), f"{link}#{anchor}"


def test_the_pages_that_code_and_messages_name_exist() -> None:
    named: dict[str, str] = {}
    folders = ("eos", "wal", "twophase", "connectors", "spark_jobs", "examples", "benchmarks", "docker", "scripts")
    for folder in (*folders, "tests", "integration_tests", "docsite"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in {".py", ".yaml", ".yml", ".js", ".html", "", ".md"}:
                text = path.read_text(errors="replace")
                named |= dict.fromkeys(re.findall(r"\bdocs/[\w/-]+\.md", text), str(path.relative_to(ROOT)))
    assert len(named) > 15
    missing = {page: path for page, path in named.items() if not (ROOT / page).exists()}
    assert set(missing) <= {"docs/page.md", "docs/index.md", "docs/how-to/other.md"}, missing


def test_the_build_fails_for_a_warning() -> None:
    """MkDocs counts no warnings with --quiet, so --strict has no effect then."""
    (command,) = re.findall(r"mkdocs build.*?;;", (ROOT / "scripts" / "docs").read_text())
    assert command == "mkdocs build --strict ;;"
    config = YAML().load((ROOT / "mkdocs.yml").read_text())["validation"]
    assert config["nav"]["omitted_files"] == config["links"]["not_found"] == config["links"]["anchors"] == "warn"


def test_the_environment_of_the_site_is_known_by_digest() -> None:
    wanted = (ROOT / "docs" / "requirements.in").read_text().split()
    locked = (ROOT / "docs" / "requirements.lock").read_text()
    assert len(wanted) == 4
    for each in wanted:
        name, _, version = each.partition("==")
        assert f"\n{name.partition('[')[0]}=={version} \\\n    --hash=sha256:" in locked, each
