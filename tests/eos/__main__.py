"""`python -m tests.eos`: the console script `eos` of this work tree, which Ctrl-C ends also where tests run behind."""

from __future__ import annotations

import signal
import sys

from spark_jobs.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs behind ignore it
sys.argv[0] = "eos"
main()
