"""Copies of the pages for language models: llms.txt, llms-full.txt and each page as Markdown (https://llmstxt.org)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from docsite.pages import title_of

_SUMMARY: Final = "Exactly-once connectors for Spark Structured Streaming: Kafka to databases and topics."
_MOST_CHARACTERS: Final = 200

Navigation = Mapping[str, Sequence[str]]
"""The paths of the pages of each section, in the order of the site's navigation."""


def write(navigation: Navigation, pages: Path, site: Path) -> None:
    """Write llms.txt, llms-full.txt and a copy of each page of the navigation into the built site."""
    lines, whole = ["# eos", "", f"> {_SUMMARY}"], []
    for section, paths in navigation.items():
        lines += ["", f"## {section}", ""]
        for path in paths:
            text = (pages / path).read_text()
            lines.append(f"- [{title_of(text)}]({path}): {description(text)}")
            whole.append(f"<!-- {path} -->\n{text}")
            copy = site / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text)
    (site / "llms.txt").write_text("\n".join(lines) + "\n")
    (site / "llms-full.txt").write_text("\n".join(whole))


def description(page: str) -> str:
    """Return the first sentences of a page as one line, or its sections if it begins with none."""
    prose = re.sub(r"^ *```.*?^ *```$|^\|.*?$|^<!--.*?-->$|^!\[.*?$|^#.*?$", "\n", page, flags=re.MULTILINE | re.DOTALL)
    first = next((" ".join(each.split()) for each in re.split(r"\n\s*\n", prose) if each.strip()), "")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)
    kept = ""
    for sentence in re.findall(r".+?(?:[.:](?=\s|$)|$)", text):
        if kept and len(kept) + len(sentence) > _MOST_CHARACTERS:
            break
        kept += sentence
    return kept.strip()
