"""Head in an object store, moto's: faults between the client and the store."""

from __future__ import annotations

from tests.object_head_suite import ObjectHeadSuite


class TestOnMoto(ObjectHeadSuite):
    """Run with real HTTP and a proxy in between."""
