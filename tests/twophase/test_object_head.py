"""Head in an object store, moto's: faults between the client and the store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eos.errors import HeadAccessError
from tests.object_head_suite import ObjectHeadSuite
from tests.object_store import Bucket, Wire
from twophase.object_head import ObjectHead


class TestOnMoto(ObjectHeadSuite):
    """Run with real HTTP and a proxy in between."""


def test_a_store_that_honours_conditions_is_accepted(bucket: Bucket) -> None:
    ObjectHead(bucket.address()).require_conditions()
    assert bucket.listed() == []


@pytest.mark.parametrize("ignored", ["if-match", "if-none-match"])
def test_a_store_that_ignores_a_condition_is_refused_before_anything_is_decided(
    bucket: Bucket, wire: Callable[..., Wire], ignored: str
) -> None:
    """Two drivers would both decide."""
    line = wire(lambda line, request: line.relay(request.without(ignored)))
    with pytest.raises(HeadAccessError, match=rf"(?i)does not honour {ignored}, so two drivers") as caught:
        ObjectHead(bucket.address(port=line.port)).require_conditions()
    assert not caught.value.retriable
    assert bucket.listed() == []
