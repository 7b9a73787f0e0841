"""`eos run` as an application of `spark-submit`: `spark-submit [OPTION]... eos_run.py SPEC [--until-caught-up]`."""

from __future__ import annotations

import sys

from spark_jobs.cli import main

if __name__ == "__main__":
    sys.argv[1:] = ["run", *sys.argv[1:]]
    main()
