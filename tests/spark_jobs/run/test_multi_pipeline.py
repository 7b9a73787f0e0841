"""Several pipelines in one driver: which may be, and how they end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.spec import Spec, load_spec
from eos.errors import FencedError, SpecError, link_of
from spark_jobs.run.multi_pipeline import PipelinesFailedError, check_together, run_all

_SPEC = """
pipeline: {name}
checkpoint: {{location: ./{location}}}
spark: {{master: "{master}"}}
sources: [{{name: s, connector: kafka, bootstrap_servers: "h:1", topics: [t], format: {{type: raw}}}}]
transforms: {transforms}
sinks: [{{name: w, from: rows, connector: sqlite, path: ./w.db, table: t, commit: write-ahead-log}}]
"""
_SQL = '[{name: rows, sql: "SELECT * FROM s"}]'
_PYTHON = '[{name: rows, python: "steps:rows", from: [s]}]'


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., Spec]:
    def load(
        name: str, folder: str = ".", master: str = "local[2]", transforms: str = _SQL, location: str = ""
    ) -> Spec:
        path = tmp_path / folder / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            _SPEC.format(name=name, master=master, transforms=transforms, location=location or f"checkpoints-{name}")
        )
        return load_spec(path, {})

    return load


def test_those_that_agree_may_run_together(spec: Callable[..., Spec]) -> None:
    check_together([spec("a")])
    check_together([spec("a", transforms=_PYTHON), spec("b", "beside"), spec("c", transforms=_PYTHON)])


def test_those_that_do_not_are_named(spec: Callable[..., Spec]) -> None:
    with pytest.raises(SpecError, match="two specs are of pipeline a"):
        check_together([spec("a"), spec("b"), spec("a", "beside")])
    with pytest.raises(SpecError, match=r"b and c have one checkpoint\.location"):
        check_together([spec("a"), spec("b"), spec("c", "beside", location="../checkpoints-b")])
    with pytest.raises(SpecError, match="a and c differ in `spark`"):
        check_together([spec("a"), spec("b"), spec("c", master="local[3]")])
    with pytest.raises(SpecError, match="b and c have Python steps in two folders"):
        check_together([spec("a"), spec("b", transforms=_PYTHON), spec("c", "beside", transforms=_PYTHON)])


def test_one_that_fails_ends_by_itself_and_is_named_at_the_end() -> None:
    failed, done = threading.Event(), []

    def fail() -> None:
        failed.set()
        raise FencedError("another driver has started", remedy="stop one of them")

    def go_on() -> None:
        assert failed.wait(10)
        done.append("a")

    with pytest.raises(PipelinesFailedError) as caught:
        run_all({"a": go_on, "b": fail})
    assert done == ["a"]
    assert caught.value.message.splitlines() == [
        "1 of 2 pipelines failed",
        "  b: another driver has started",
        "    remedy: stop one of them",
        f"    EOS-FENCED: {link_of('EOS-FENCED')}",
        "  ended well: a",
    ]


def test_one_alone_fails_by_its_own_error_and_what_nobody_foresaw_is_raised() -> None:
    def fail() -> None:
        raise FencedError("another driver has started")

    def stumble() -> None:
        raise ZeroDivisionError

    run_all({"a": lambda: None})
    with pytest.raises(FencedError):
        run_all({"a": fail})
    with pytest.raises(ZeroDivisionError):
        run_all({"a": fail, "b": stumble, "c": lambda: None})
