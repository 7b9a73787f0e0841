"""`scripts/words` fails on each planted pattern, on a long line and on an empty docstring, and never raises a limit."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "words"


def _loaded() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("words_script", str(SCRIPT))
    spec = importlib.util.spec_from_loader("words_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["words_script"] = module  # which dataclasses and named tuples look up
    loader.exec_module(module)
    return module


words = _loaded()

PLANTED = {
    "what": "The page shows what a pipeline tells.",
    "whoever": "Fence whoever runs.",
    "of": "Of all tasks.",
    "that-one": "Return the line, or that of the parent.",
    "again": "Begin the query anew.",
    "made": "It makes a table.",
    "come-go": "Rows come from Kafka.",
    "ask-tell": "Ask the server.",
    "life": "The life of a pipeline.",
    "is-no": "A wrong name is no error.",
    "picture": "Mend the table.",
    "alone": "The driver alone writes.",
    "so-that": "Close it, so that a task stops.",
    "long-sentence": "one " * 40 + ".",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "wal").mkdir()
    (tmp_path / "README.md").write_text("# eos\n\nWrite each row once.\n")
    (tmp_path / "wal" / "module.py").write_text('"""Segments of a log."""\n')
    (tmp_path / "scripts" / "words.limits").write_text("")
    return tmp_path


def test_plain_text_passes(project: Path) -> None:
    assert words.main([], project) == 0


@pytest.mark.parametrize("name", list(PLANTED))
def test_a_planted_pattern_fails_in_docs_and_in_code(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "docs" / "page.md").write_text(PLANTED[name] + "\n")
    assert words.main([], project) == 1
    assert f"docs.{name}: 1, and the limit is 0" in capsys.readouterr().err
    (project / "docs" / "page.md").unlink()
    (project / "wal" / "module.py").write_text(f'"""Segments of a log.\n\n{PLANTED[name]}\n"""\n')
    assert words.main([], project) == 1
    assert f"code.{name}: 1, and the limit is 0" in capsys.readouterr().err


def test_every_pattern_is_planted() -> None:
    assert set(words.PATTERNS) <= set(PLANTED)


def test_code_in_a_page_does_not_count(project: Path) -> None:
    (project / "docs" / "page.md").write_text("```\nsay again\n```\n`what` [text](what-again.md)\n")
    assert words.main([], project) == 0


def test_a_comment_and_a_message_count(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "wal" / "module.py").write_text('"""Segments of a log."""\n\n# whoever\nTEXT = f"nobody knows {1}"\n')
    assert words.main(["--show", "code.whoever"], project) == 1
    assert capsys.readouterr().out.splitlines() == ["wal/module.py:3: whoever", "wal/module.py:4: nobody"]


@pytest.mark.parametrize("text", ["See Writer.", "How it stands.", "All of it.", "Of all tasks.", "Append."])
def test_a_docstring_that_says_nothing_fails(text: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "wal" / "module.py").write_text(f'"""Segments."""\n\n\ndef append() -> None:\n    """{text}"""\n')
    assert words.main([], project) == 1
    assert "code.empty-docstring" in capsys.readouterr().err


def test_a_long_line_of_prose_fails_and_tables_may_be_long(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = project / "docs" / "page.md"
    page.write_text("| " + "row " * 29 + "|\n| " + "more " * 30 + "|\n\n```\n" + "x" * 130 + "\n```\n")
    assert "columns" not in _errors(project, capsys)
    page.write_text("Write each row once. " * 8 + "\n")
    assert "docs/page.md:1: 168 columns" in _errors(project, capsys)


def _errors(project: Path, capsys: pytest.CaptureFixture[str]) -> str:
    words.main([], project)
    return capsys.readouterr().err


def test_limits_are_lowered_and_never_raised(project: Path) -> None:
    limits = project / "scripts" / "words.limits"
    page = project / "docs" / "page.md"
    limits.write_text("docs.again 2\ndocs.made 0\n")
    page.write_text("Do it again. Make it.\n")
    assert words.main(["--update"], project) == 1
    assert words.read_limits(limits) == {"docs.again": 1, "docs.made": 0}
    page.write_text("Do it again, and again.\n")
    assert words.main([], project) == 1
