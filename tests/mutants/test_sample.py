"""A part of the mutants is tried in every run of `scripts/test --more`, by its seed; `EOS_MUTANTS=all` tries all.

`make mutants` tries all with a report. A failure here names the mutant; `EOS_MATRIX_SEED` repeats the choice of a run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Final

import pytest

from integration_tests.harness.rotation import seed_of_run
from tests.mutants.catalogue import ALL
from tests.mutants.mutant import Mutant
from tests.mutants.trial import Verdict, Workshop, workshop

_SAMPLE: Final = 6


def _sample() -> list[Mutant]:
    without_services = [each for each in ALL if not each.needs_services]
    seed = seed_of_run()
    if seed is None or os.environ.get("EOS_MUTANTS") == "all":
        return without_services
    return random.Random(seed).sample(without_services, min(_SAMPLE, len(without_services)))


SAMPLE: Final = _sample()


@pytest.fixture(scope="module")
def copy() -> Iterator[Workshop]:
    with workshop() as made:
        made.check({test for mutant in SAMPLE for test in mutant.caught_by})
        yield made


@pytest.mark.mutant
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda each: each.name)
def test_a_mutant_is_caught(mutant: Mutant, copy: Workshop) -> None:
    trial = copy.trial(mutant)
    assert trial.verdict is Verdict.CAUGHT, f"{mutant.path}: {mutant.rule}\n{trial.output}"
