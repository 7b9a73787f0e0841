"""Who is seen to run a pipeline, and what two processes do not do to it at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spec import Spec
from eos.errors import IdentityError
from spark_jobs.observe.run_lock import alone, present, running
from tests.savepoint_files import spec_in


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return spec_in(tmp_path)


def test_a_run_that_begins_does_not_hide_one_that_lives(spec: Spec) -> None:
    """Two that were started by mistake are both there, until one of them finds that it is fenced."""
    with present(spec, "first") as first:
        with present(spec, "second") as second:
            assert running(spec) == second
        assert running(spec) == first
    assert running(spec) is None


def test_two_commands_of_one_kind_are_not_under_way_at_once(spec: Spec) -> None:
    with alone(spec, "repair"):
        with alone(spec, "rescale"):
            pass
        with pytest.raises(IdentityError, match="another `eos repair` of orders is under way"), alone(spec, "repair"):
            pytest.fail("both are under way")
    with alone(spec, "repair"):
        pass
