"""Types of the protocol's answers: the type checker knows each, and no step of the protocol gets round it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest
from mypy import api

import twophase
from twophase import messages

PROTOCOL: Final = sorted(Path(twophase.__file__).parent.glob("*.py"))

SNIPPET: Final = """
from typing import assert_type
from collections.abc import Mapping, Sequence
from twophase import messages as m
from twophase.ids import Scope
from twophase.participants import Prepared
from twophase.values import CheckpointRecord, CommitOutcome
from eos.errors import ConnectorError, HeadFormatError

def steps(scope: Scope, lost: m.LoadRecord, commit: m.Commit) -> m.Steps[str]:
    assert_type((yield from m.ReadHead()), m.HeadSnapshot | None)
    assert_type((yield from m.RunWriters(scope)), m.Acknowledged | m.Failed)
    assert_type((yield from lost), CheckpointRecord | HeadFormatError)
    assert_type((yield from commit), Mapping[str, Sequence[CommitOutcome] | ConnectorError])
    assert_type((yield from m.ListPrepared("i")), Mapping[str, Sequence[Prepared]])
    seen = yield from m.ReadHead()
    return seen.head  # WRONG
"""


def test_the_type_checker_knows_the_type_of_each_answer(tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(SNIPPET)
    out, _, _ = api.run(["--strict", "--no-error-summary", "--cache-dir", str(tmp_path), str(tmp_path / "snippet.py")])
    line = SNIPPET.splitlines().index("    return seen.head  # WRONG") + 1
    found = [re.sub(r"^.*snippet\.py:", "", each) for each in out.splitlines() if ": error:" in each]
    assert found == [
        f'{line}: error: Item "None" of "HeadSnapshot | None" has no attribute "head"  [union-attr]',
        f'{line}: error: Incompatible return value type (got "HeadValue | Any", expected "str")  [return-value]',
    ]


def _bare_yields(path: Path) -> list[str]:
    """Return the steps that yield an action themselves: the answer of such a `yield` is `Any`."""
    functions = (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.FunctionDef))
    steps = (each for each in functions if each.returns is not None and ast.unparse(each.returns).startswith("Steps["))
    return [f"{path.name}:{each.name}" for each in steps if any(isinstance(part, ast.Yield) for part in ast.walk(each))]


def test_no_step_of_the_protocol_has_an_answer_without_a_type() -> None:
    assert len(PROTOCOL) > 20
    assert [each for path in PROTOCOL for each in _bare_yields(path)] == []


def test_an_action_is_yielded_and_its_answer_returned() -> None:
    action = messages.DrawNonce()
    steps = iter(action)
    assert next(steps) is action
    with pytest.raises(StopIteration) as end:
        steps.send("drawn")
    assert end.value.value == "drawn"
