"""`python -m tests.simulation [name]`: the deep explorations, or those whose name contains `name`. Takes some GiB.

Those of the model are named `model: ...`.
"""

from __future__ import annotations

import sys

from tests.model import repair, search, variants
from tests.simulation.explore import explore
from tests.simulation.scenarios import DEEP


def main(wanted: str) -> int:
    """Explore and report; 1 if a rule does not hold."""
    failed = False
    for name, config in DEEP.items():
        if wanted in name:
            found = explore(config)
            failed |= bool(found.violation)
            print(f"{name}: {found.worlds} worlds, {found.ends} ends, {found.violation or 'holds'}", flush=True)
            print(*found.history, sep="\n")
    for name, bounds in variants.DEEP.items():
        if wanted in f"model: {name}":
            seen = search.explore(bounds)
            failed |= bool(seen.violation)
            print(f"model: {name}: {seen.worlds} worlds, {seen.violation or 'holds'}", flush=True)
            print(*seen.trace, sep="\n")
    if wanted in "model: repairs among three drivers":
        worlds, violation = repair.explore()
        failed |= bool(violation)
        print(f"model: repairs among three drivers: {worlds} worlds, {violation or 'holds'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
