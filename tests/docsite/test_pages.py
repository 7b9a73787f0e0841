"""Pages of the site: links between them, and to files of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from docsite.pages import LinkError, collect, title_of

_PAGE = """# A `page`

[other.md](how-to/other.md#part), [its text](how-to/other.md), ![picture](images/a.png), [data](data/b.jsonl),
[`code`](how-to/other.md), [readme](../README.md), [example](../examples/job.py), [folder](../examples),
[outside](https://spark.apache.org/) and `[code](missing.md)`.

```
[block](missing.md)
```
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "README.md": "# eos\n\n[The page](docs/index.md), [`eos`](docs/how-to/other.md)\n",
        "docs/index.md": _PAGE,
        "docs/how-to/other.md": "# Another one\n\n[Up](../index.md)\n",
        "docs/images/a.png": "",
        "docs/data/b.jsonl": "{}",
        "docs/data/unlinked.jsonl": "{}",
        "docs/requirements.in": "mkdocs\n",
        "examples/job.py": "print(1)\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_links_are_as_they_are_in_the_site(root: Path) -> None:
    collect({}, root / "site", root)
    page = (root / "site" / "index.md").read_text()
    for expected in (
        "[Another one](how-to/other.md#part)",
        "[its text](how-to/other.md)",
        "[`code`](how-to/other.md)",
        "![picture](images/a.png)",
        "[data](data/b.jsonl)",
        "[readme](project/readme.md)",
        "[example](source/examples/job.py.md)",
        "[folder](source/examples.md)",
        "[outside](https://spark.apache.org/)",
        "`[code](missing.md)`",
        "```\n[block](missing.md)\n```",
    ):
        assert expected in page, expected
    readme = (root / "site" / "project" / "readme.md").read_text()
    assert "[The page](../index.md), [`eos`](../how-to/other.md)" in readme
    assert "[Up](../index.md)" in (root / "site" / "how-to" / "other.md").read_text()
    assert "````python\nprint(1)\n````" in (root / "site" / "source" / "examples" / "job.py.md").read_text()
    assert "## `job.py`" in (root / "site" / "source" / "examples.md").read_text()


def test_files_that_no_page_links_to_are_left_out(root: Path) -> None:
    collect({}, root / "site", root)
    assert (root / "site" / "data" / "b.jsonl").exists()
    assert not (root / "site" / "data" / "unlinked.jsonl").exists()
    assert not (root / "site" / "requirements.in").exists()


def test_a_link_without_a_file_is_an_error(root: Path) -> None:
    (root / "docs" / "how-to" / "other.md").write_text("[gone](../gone.md)\n")
    with pytest.raises(LinkError, match=r"docs/how-to/other\.md: the link to \.\./gone\.md has no file"):
        collect({}, root / "site", root)


def test_only_changes_are_written(root: Path) -> None:
    site = root / "site"
    assert site / "index.md" in collect({"reference/keys.md": lambda: "# Keys\n"}, site, root)
    assert collect({"reference/keys.md": lambda: "# Keys\n"}, site, root) == []
    (root / "docs" / "images" / "a.png").unlink()
    (root / "docs" / "index.md").write_text("# A page\n")
    changed = collect({}, site, root)
    assert {site / "index.md", site / "images" / "a.png", site / "reference" / "keys.md"} <= set(changed)
    assert not (site / "reference" / "keys.md").exists()


def test_a_title_has_no_marks() -> None:
    assert title_of(_PAGE) == "A page"
    assert title_of("no heading") == ""
