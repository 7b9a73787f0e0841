"""`scripts/test` stops each kind of server that its tests may have started."""

from __future__ import annotations

import re
from pathlib import Path

from integration_tests.services.__main__ import STOPPABLE

_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "test"


def test_each_kind_of_server_is_stopped() -> None:
    found = re.search(r"for each in ([a-z -]+); do\n.*services down", _SCRIPT.read_text())
    assert found is not None
    assert found[1].split() == list(STOPPABLE)
