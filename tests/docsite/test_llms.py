"""llms.txt, and the copies of the pages beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from docsite import llms


def test_each_page_of_the_navigation_is_listed_and_copied(tmp_path: Path) -> None:
    pages, site = tmp_path / "pages", tmp_path / "site"
    (pages / "how-to").mkdir(parents=True)
    site.mkdir()
    (pages / "index.md").write_text("# eos\n\nWrites each row once. More.\n")
    (pages / "how-to" / "run.md").write_text("# Run `it`\n\n```\neos run\n```\n\nruns it.\n")
    llms.write({"Home": ["index.md"], "Guides": ["how-to/run.md"]}, pages, site)
    text = (site / "llms.txt").read_text()
    assert text.startswith("# eos\n\n> ")
    assert "\n## Home\n\n- [eos](index.md): Writes each row once. More.\n\n## Guides\n" in text
    assert "- [Run it](how-to/run.md): runs it.\n" in text
    assert (site / "how-to" / "run.md").read_text() == (pages / "how-to" / "run.md").read_text()
    whole = (site / "llms-full.txt").read_text()
    assert whole.index("Writes each row once") < whole.index("<!-- how-to/run.md -->") < whole.index("runs it.")


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("# T\n\n| a | b |\n| - | - |\n\nText [of](b.md) a\npage. Next one.\n", "Text of a page. Next one."),
        (f"# T\n\n{'word ' * 50}end. Second.\n", f"{'word ' * 50}end."),
        ("# T\n", ""),
    ],
)
def test_a_description_is_the_first_sentences(page: str, expected: str) -> None:
    assert llms.description(page) == expected
