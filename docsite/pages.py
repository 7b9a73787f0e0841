"""Pages of the site, collected from docs/, from files that they link to, and from generators."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = ROOT / ".docs" / "pages"
PROJECT_PAGES: Final = {
    "README.md": "project/readme.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
"""Pages at the root of the repository, and their places in the site."""
SOURCES: Final = "source"
"""Folder of the site with the files of the repository that pages link to."""
ASSETS: Final = ("assets", "images")
"""Folders of docs/ that are copied whole. A file of another folder is copied if a page links to it."""

_LINK_OR_CODE: Final = re.compile(
    r"\[(?P<shown>[^\]]*)\]\((?P<link>[^()#\s]+)(?P<anchor>#[^()\s]*)?\)|^ *```.*?^ *```$|`[^`\n]*`",
    re.MULTILINE | re.DOTALL,
)
"""A link, whose text may hold code, or code, in which nothing is a link."""
_HEADING: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_LANGUAGES: Final = {"py": "python", "yml": "yaml", "yaml": "yaml", "json": "json", "toml": "toml", "md": "markdown"}


class LinkError(Exception):
    """A page has a link to a file that the repository does not have."""


def collect(generated: Mapping[str, Callable[[], str]], target: Path = PAGES, root: Path = ROOT) -> list[Path]:
    """Write all pages to `target`, and return the files that changed. Remove files of earlier runs.

    `generated` maps a path in the site to the function that returns its Markdown.
    """
    written = dict(_contents(generated, root))
    changed = [target / path for path, content in written.items() if _write(target / path, content)]
    for path in [each for each in target.rglob("*") if each.is_file()]:
        if path.relative_to(target).as_posix() not in written:
            path.unlink()
            changed.append(path)
    return changed


def title_of(page: str) -> str:
    """Return the text of the first heading of a page, without the marks of code."""
    found = _HEADING.search(page)
    return found[1].replace("`", "") if found else ""


def _contents(generated: Mapping[str, Callable[[], str]], root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path of each file of the site and its content."""
    pages = {root / name: place for name, place in PROJECT_PAGES.items() if (root / name).exists()}
    for path in sorted((root / "docs").rglob("*")):
        if path.suffix == ".md":
            pages[path] = path.relative_to(root / "docs").as_posix()
        elif path.is_file() and path.parent.name in ASSETS:
            yield path.relative_to(root / "docs").as_posix(), path.read_bytes()
    links = _Links(root, pages)
    for path, place in pages.items():
        yield place, links.rewritten(path, place).encode()
    for path in sorted(links.files):
        yield path.relative_to(root / "docs").as_posix(), path.read_bytes()
    for place, text in generated.items():
        yield place, text().encode()
    for source in sorted(links.sources):
        yield f"{SOURCES}/{source}.md", _source_page(root / source, source).encode()


class _Links:
    """Links of pages, rewritten for the site.

    `files` collects the linked files of docs/ that are not pages, `sources` the files of other folders.
    """

    def __init__(self, root: Path, pages: Mapping[Path, str]) -> None:
        self.files: set[Path] = set()
        self.sources: set[str] = set()
        self._root = root
        self._pages = pages
        self._titles = {path: title_of(path.read_text()) for path in pages}

    def rewritten(self, path: Path, place: str) -> str:
        """Return the text of a page with each relative link as it is in the site."""
        return _LINK_OR_CODE.sub(lambda found: self._link(found, path, place), path.read_text())

    def _link(self, found: re.Match[str], path: Path, place: str) -> str:
        shown, link, anchor = found["shown"], found["link"], found["anchor"] or ""
        if not link or re.match(r"[a-z]+:", link):
            return found[0]
        file = Path(os.path.normpath(path.parent / link))
        if file in self._pages:
            target = self._pages[file]
            if shown == file.name or shown.endswith(f"/{file.name}"):
                shown = self._titles[file]
        elif not file.exists():
            raise LinkError(f"{path.relative_to(self._root)}: the link to {link} has no file")
        elif file.is_relative_to(self._root / "docs") and file.is_file():
            self.files.add(file)
            target = file.relative_to(self._root / "docs").as_posix()
        else:
            source = file.relative_to(self._root).as_posix()
            self.sources.add(source)
            target = f"{SOURCES}/{source}.md"
        return f"[{shown}]({os.path.relpath(target, Path(place).parent)}{anchor})"


def _source_page(path: Path, name: str) -> str:
    """Return a page that shows a file of the repository, or each file of a folder."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    shown = [each for each in files if "__pycache__" not in each.parts and ".egg-info" not in str(each)]
    parts = [f"# `{name}`\n"]
    for each in shown:
        inner = each.relative_to(path).as_posix()
        heading = f"## `{inner}`\n\n" if path.is_dir() else ""
        language = _LANGUAGES.get(each.suffix.lstrip("."), "text")
        parts.append(f"{heading}````{language}\n{each.read_text().rstrip()}\n````\n")
    return "\n".join(parts)


def _write(path: Path, content: bytes) -> bool:
    """Write a file unless it has this content already, because MkDocs rebuilds the site for each changed file."""
    if path.is_file() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return True
