"""Looks for planted secrets wherever a pipeline's run could show one: processes, pages, files."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import psutil

from integration_tests.harness import session

_LINK: Final = re.compile(r"""(?:href|src)=["']([^"'#]+)""")
_NO_PAGE: Final = re.compile(r"/static/|/kill/|\.(js|css|png|svg)\b")
_MOST_PAGES: Final = 200
_TIMEOUT_S: Final = 60.0


class Planted:
    """Distinct secrets by the place where they were planted, and where each was found."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = dict(secrets)
        self.found: set[str] = set()
        self.seen = 0

    def look(self, where: str, content: bytes | str) -> set[str]:
        """Note each secret in the content, as UTF-8 or as Java's UTF-16; returns the places of those that are there."""
        self.seen += 1
        data = content.encode() if isinstance(content, str) else content
        places = {
            place
            for place, secret in self._secrets.items()
            if secret.encode() in data or secret.encode("utf-16-le") in data or secret.encode("utf-16-be") in data
        }
        self.found |= {f"{place} in {where}" for place in places}
        return places

    def look_at_arguments(self, of: int) -> None:
        """Look at the arguments of all processes of a session, and of this machine that came of them."""
        for process in session.members(of):
            with suppress(psutil.Error):
                for word in process.cmdline():
                    self.look(f"the argument {word.partition('=')[0]} of {process.name()}", word)

    def look_at_environments(self, of: int, given: Iterable[str]) -> int:
        """Look at the environments of all processes of a session; returns their number.

        Variables that the user gave to the driver, with the secret, are left out: processes inherit them, and only the
        same user can read them.
        """
        processes = session.members(of)
        for process in processes:
            with suppress(psutil.Error):
                others = {name: value for name, value in process.environ().items() if name not in given}
                self.look(f"the environment of {process.name()}", repr(others))
        return len(processes)

    def look_at_files(self, folder: Path, without: Iterable[Path]) -> int:
        """Look at all files of a folder, and at their names; returns the number of those with something in them."""
        files = [path for path in folder.rglob("*") if path.is_file() and path not in without]
        read = 0
        for file in files:
            with suppress(FileNotFoundError):
                content = file.read_bytes()
                self.look(f"the file {file.name}", f"{file}\n".encode() + content)
                read += bool(content)
        return read

    def look_at_pages(self, *urls: str) -> dict[str, str]:
        """Look at pages, and at all pages of the same server that they link; returns their texts."""
        left, texts = list(urls), dict[str, str]()
        while left and len(texts) < _MOST_PAGES:
            url = left.pop(0)
            if url in texts:
                continue
            try:
                with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
                    texts[url] = answer.read().decode(errors="replace")
            except urllib.error.HTTPError as error:
                texts[url] = error.read().decode(errors="replace")
            self.look(f"the page {urlsplit(url).path}", texts[url])
            links = (urljoin(url, link.replace("&amp;", "&")) for link in _LINK.findall(texts[url]))
            left += [link for link in links if link.startswith(_server(url)) and not _NO_PAGE.search(link)]
        return texts


def _server(url: str) -> str:
    return f"{urlsplit(url).scheme}://{urlsplit(url).netloc}/"
