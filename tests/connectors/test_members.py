"""Members of a contract that a plugin's class lacks are named where its instance is made, not when one is called."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from connectors.api.contracts import DirectWriter, Sink, Source, Writer
from connectors.members import require_members
from eos.errors import SpecError
from twophase.participants import Committer


class _Contract(Protocol):
    name: str

    @property
    def size(self) -> int: ...

    def write(self, rows: int) -> None: ...

    def close(self) -> None: ...


class _Complete:
    size = 1

    def __init__(self) -> None:
        self.name = "rows"

    def write(self, rows: int) -> None:
        del rows

    def close(self) -> None: ...


class _Inheriting(_Contract):
    """Its `write` and `size` are the contract's: they do nothing, and None is no number."""

    def __init__(self) -> None:
        self.name = "rows"

    def close(self) -> None: ...


class _Forwarding:
    """As a wrapper of a connection: it has what another object has."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_Complete(), name)


def test_all_members_are_there() -> None:
    complete, forwarding = _Complete(), _Forwarding()
    assert require_members(complete, _Contract, "here") is complete
    assert require_members(forwarding, _Contract, "here") is forwarding


def test_a_member_that_is_inherited_from_the_contract_is_missing() -> None:
    with pytest.raises(SpecError, match=r"^sink rows: `writer` returned a _Inheriting, .* it lacks size, write\n"):
        require_members(_Inheriting(), _Contract, "sink rows: `writer`")  # type: ignore[abstract]


def test_a_member_of_an_older_version_is_missing() -> None:
    older = type("Older", (), {"name": "rows", "size": 1, "put": _Complete.write, "close": _Complete.close})
    with pytest.raises(SpecError, match=r"it lacks write\n"):
        require_members(older(), _Contract, "here")


@pytest.mark.parametrize("contract", [Source, Sink, Writer, DirectWriter, Committer])
def test_what_is_something_else_lacks_the_first_of_many(contract: type) -> None:
    with pytest.raises(SpecError, match=rf"returned a NoneType, not a {contract.__name__}: it lacks \w+, \w+"):
        require_members(None, contract, "here")
