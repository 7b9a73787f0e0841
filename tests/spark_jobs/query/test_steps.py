"""Steps of the user's own: whatever their code does, the message names the step, the file and the line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from connectors.spec import PythonStep
from eos.errors import SpecError
from spark_jobs.query.steps import call_step

_MODULE = "walk_of_the_tests"


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop(_MODULE, None)


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        ("x = 1\ny = missing\n", rf"NameError: name 'missing' is not defined \({_MODULE}.py, line 2\)", "correct"),
        ("def step():\n    return 1 / 0\n", rf"ZeroDivisionError: .* \({_MODULE}.py, line 2\)", "correct"),
        ("import sys\nsys.exit(0)\n", rf"SystemExit: 0 \({_MODULE}.py, line 2\)", "correct"),
        ("def step():\n    raise ConnectionRefusedError('away')\n", "ConnectionRefusedError: away", "correct"),
        ("def step(:\n", "SyntaxError", "correct"),
        ("import lacking.part\n", "No module named 'lacking'", "put lacking.py beside the spec, or install"),
        ("def other(): pass\n", f"module '{_MODULE}' has no attribute 'step'", "correct"),
        ("def step(colour): pass\n", "missing 1 required positional argument: 'colour'", "correct"),
        ("def step(): return 7\n", "returned int, not a DataFrame", "return the transformed DataFrame"),
    ],
)
def test_a_wrong_step_is_named_with_its_place(code: str, message: str, remedy: str, tmp_path: Path) -> None:
    (tmp_path / f"{_MODULE}.py").write_text(code)
    with pytest.raises(SpecError, match=message) as raised:
        call_step(_step(), tmp_path, {})
    assert f"step loud: {_MODULE}:step" in str(raised.value)
    assert remedy in str(raised.value.remedy)


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="ModuleNotFoundError") as raised:
        call_step(_step(), tmp_path, {})
    assert f"put {_MODULE}.py beside the spec" in str(raised.value.remedy)


def test_what_spark_raises_goes_through(tmp_path: Path) -> None:
    (tmp_path / f"{_MODULE}.py").write_text(
        "from pyspark.errors import AnalysisException\ndef step(): raise AnalysisException('no such column')\n"
    )
    with pytest.raises(AnalysisException, match="no such column"):
        call_step(_step(), tmp_path, {})


def _step() -> PythonStep:
    return PythonStep.model_construct(name="loud", python=f"{_MODULE}:step", from_=[], options={})
