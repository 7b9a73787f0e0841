"""A machine is restored from a snapshot with its memory (H33). A test module subclasses this with a fixture `world`."""

from __future__ import annotations

import pytest

from eos.errors import IdentityError, LostCommittableError, SetBackError
from tests.world import INCARNATION, PIPELINE, World


class ResumedMachineSuite:
    """Give `world` as a fixture: a pipeline that has not begun, whose target is on another machine."""

    @pytest.mark.parametrize("before", [(1, 2, 3), ()], ids=["rows", "no rows"])
    def test_h33_a_machine_is_restored_with_its_memory(self, world: World, before: tuple[int, ...]) -> None:
        """Driver, head and log go back; the driver goes on without a start, and writes the checkpoint with other rows.

        Two-phase commit asks the sink before the decision, a log after it. Each later start says so, too.
        """
        driver = world.start()
        world.checkpoint(driver, 0)
        world.set_back(driver, lambda: world.checkpoint(driver, *before), with_disk=True)
        assert sorted(world.rows().elements()) == [0, *before]
        said = "already has checkpoint 1, which this driver is only about to write"
        if world.has_log:
            said = r"lost: checkpoint 1 is completed, but sink warehouse neither holds nor shows 2 of its transactions"
        with pytest.raises(LostCommittableError if world.has_log else SetBackError, match=said):
            world.checkpoint(driver, 4, 5)
        refused = r"(holds rows of checkpoint|counts checkpoints up to) 1, the newest completed is 0: head was set back"
        for _ in range(2):
            with pytest.raises((IdentityError, LostCommittableError), match=f"{refused}|lost: checkpoint 1"):
                world.start()
        assert sorted(world.rows().elements()) == [0, *before]

    def test_h33_a_machine_is_restored_with_its_memory_to_long_before(self, world: World) -> None:
        """Further than head and the sink keep history."""
        driver = world.start()
        world.checkpoint(driver, 0)

        def meanwhile() -> None:
            for number in range(1, 8):
                world.checkpoint(driver, number)

        world.set_back(driver, meanwhile, with_disk=True)
        assert sorted(world.rows().elements()) == list(range(8))
        with pytest.raises(SetBackError, match=r"already has checkpoint [17], which this driver is only about"):
            world.checkpoint(driver, 10, 11)
        with pytest.raises(IdentityError, match=r"(holds rows of checkpoint|counts checkpoints up to) 7, the newest"):
            world.start()
        assert sorted(world.rows().elements()) == list(range(8))

    def test_h33_the_memory_of_a_driver_alone_is_restored(self, world: World) -> None:
        """The driver does not take its swap of before for the swap that it sends. The next start goes on."""
        driver = world.start()
        world.checkpoint(driver, 0)
        world.set_back(driver, lambda: world.checkpoint(driver, 1, 2, 3), with_disk=False)
        with pytest.raises((SetBackError, IdentityError), match=r"already has checkpoint 1|cannot follow 1"):
            world.checkpoint(driver, 4, 5)
        assert sorted(world.rows().elements()) == list(range(4))
        world.planned = world.done = 1  # Spark's folder did not go back either
        world.checkpoint(world.start(), 6, 7)
        assert sorted(world.rows().elements()) == [0, 1, 2, 3, 6, 7]
        committer = world.sink.committer(PIPELINE)
        try:
            assert committer.prepared(INCARNATION) == []
        finally:
            committer.close()
