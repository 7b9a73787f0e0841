"""The command `eos`, also as `python -m eos`."""

from __future__ import annotations

from spark_jobs.cli import main

if __name__ == "__main__":
    main()
