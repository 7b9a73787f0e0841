"""The errors: one root, one tree, and their way between processes."""

from __future__ import annotations

import pickle
import re
import traceback
from pathlib import Path

import pytest

import wal.errors
from eos import errors
from eos.errors import ConnectorError, EosError, SinkError, TargetError
from spark_jobs.session.failures import TOKEN, CarriedError, carried, translate


def test_every_error_has_the_root() -> None:
    for module in (errors, wal.errors):
        assert [name for name in module.__all__ if not issubclass(getattr(module, name), EosError)] == []


def test_a_restart_does_not_take_an_error_of_the_storage_for_one_of_the_pipeline() -> None:
    assert not issubclass(wal.errors.WalError, ConnectorError)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn: list[tuple[str, str]] = []
    above: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if (found := re.match(r"([│├└─ ]*)([A-Z]\w+Error)\b", line)) is not None and line[0] in "E│├└":
            depth = len(found[1]) // 4
            above[depth] = found[2]
            drawn.append((found[2], above.get(depth - 1, "Exception")))
    assert dict(drawn[:-1]) == {name: getattr(errors, name).__bases__[0].__name__ for name in errors.__all__}
    assert drawn[-1] == ("WalError", "EosError")


@pytest.mark.parametrize("name", errors.__all__)
def test_a_pickled_error_keeps_its_message_and_remedy(name: str) -> None:
    sent = getattr(errors, name)("it is so", remedy="change it")
    back = pickle.loads(pickle.dumps(sent))
    assert type(back) is type(sent)
    assert (back.message, back.remedy, str(back)) == ("it is so", "change it", "it is so\n  remedy: change it")


def _codes() -> dict[str, str]:
    """The codes of all classes, by the class."""
    classes = [EosError, *(getattr(module, name) for module in (errors, wal.errors) for name in module.__all__)]
    return {each.__name__: each.code for each in classes}


def test_codes_are_stable() -> None:
    """The list grows. A line of it is never changed: users match codes in alerts."""
    lines = (Path(__file__).with_name("codes.txt")).read_text().splitlines()
    known = dict(line.split(" ", 1)[::-1] for line in lines)
    assert {name: code for name, code in _codes().items() if name in known} == known
    assert not set(_codes()) - set(known), "append new classes to codes.txt"


def test_each_class_has_a_code_of_its_own() -> None:
    roots = {"EosError", "ConnectorError"}
    own = [name for name in errors.__all__ if name not in roots]
    assert [name for name in own if "code" not in vars(getattr(errors, name))] == []
    assert len({getattr(errors, name).code for name in own}) == len(own)
    assert all(re.fullmatch(r"EOS(-[A-Z]+)+", code) for code in _codes().values())


def test_a_traceback_ends_with_code_and_link() -> None:
    error = pickle.loads(pickle.dumps(errors.UnknownTopicError("there is no topic t", remedy="create it")))
    shown = "".join(traceback.format_exception(error)).splitlines()
    assert shown[-3:] == [
        "eos.errors.UnknownTopicError: there is no topic t",
        "  remedy: create it",
        "EOS-UNKNOWN-TOPIC: https://github.com/eos-spark/eos/blob/main/docs/reference/errors.md#eos-unknown-topic",
    ]


class _QueueFullError(TargetError):
    """Of a connector that only the workers have."""


class _OwnError(SinkError):
    """Derived directly from a class of ours."""


@pytest.mark.parametrize(("kind", "nearest"), [(_QueueFullError, TargetError), (_OwnError, SinkError)])
def test_a_connectors_own_error_arrives_as_the_nearest_one_of_ours(
    kind: type[ConnectorError], nearest: type[ConnectorError]
) -> None:
    with pytest.raises(CarriedError) as caught, carried(TOKEN):
        raise kind("queue full", remedy="drain it")
    found = translate(RuntimeError(str(caught.value)), "checkpoint 3")
    assert type(found) is nearest
    assert found.code == nearest.code == kind.code
    assert (found.message, found.remedy) == ("queue full", "drain it")
