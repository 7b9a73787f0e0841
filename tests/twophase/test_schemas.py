"""A name of a schema means one schema (H35)."""

from __future__ import annotations

import pytest

from eos.errors import IdentityError, SourceError
from twophase.schemas import UNKNOWN, other_schema, pinned
from twophase.values import MetSchemas

_KNOWN = {"orders": {"schema 1": "a"}}


@pytest.mark.parametrize(
    "met",
    [
        {},
        {"orders": {("schema 1", "a")}},
        {"orders": {("schema 2", "b"), ("schema 3", "b")}},
        {"orders": {("schema 2", UNKNOWN)}},
        {"others": {("schema 1", "b")}},
    ],
)
def test_h35_what_is_the_same_or_new_is_decided(met: MetSchemas) -> None:
    assert other_schema(7, _KNOWN, met) is None


@pytest.mark.parametrize(
    ("met", "said"),
    [
        ({("schema 1", "b")}, "schema 1 is now another schema (fingerprint b)"),
        ({("schema 1", "a"), ("schema 1", "b")}, "schema 1 is now another schema (fingerprint b)"),
        ({("schema 1", UNKNOWN)}, "schema 1 is now unknown"),
        ({("schema 1", "a"), ("schema 1", UNKNOWN)}, "schema 1 is now unknown"),
        ({("schema 2", "a"), ("schema 2", "b")}, "schema 2 is now another schema (fingerprint b)"),
    ],
)
def test_h35_a_name_with_another_schema_is_not_decided(met: set[tuple[str, str]], said: str) -> None:
    error = other_schema(7, _KNOWN, {"orders": met})
    assert isinstance(error, IdentityError)
    assert f"checkpoint 7: source orders: {said}" in error.message


def test_h35_where_a_task_did_not_get_what_another_got_the_checkpoint_is_tried_again() -> None:
    error = other_schema(7, _KNOWN, {"orders": {("schema 2", "b"), ("schema 2", UNKNOWN)}})
    assert isinstance(error, SourceError)


def test_h35_a_name_without_a_schema_may_get_one_later() -> None:
    assert pinned({"orders": {("schema 1", "a"), ("schema 2", UNKNOWN)}, "others": {("schema 1", UNKNOWN)}}) == _KNOWN
