"""The command `eos`, also as `python -m eos`."""

from __future__ import annotations

from eos._interrupts import raise_again
from spark_jobs.cli import main as command


def main() -> None:
    """The console script `eos`."""
    raise_again()
    command()


if __name__ == "__main__":
    main()
