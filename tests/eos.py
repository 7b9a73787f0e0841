"""`python -m tests.eos`: the console script `eos` of this work tree."""

from __future__ import annotations

import sys

from spark_jobs.cli import main

sys.argv[0] = "eos"
main()
