"""Runs pytest again and again, each time in a fork of this process, which has imported the libraries already.

A script: it imports nothing of the project, so that each fork imports the project's modules as they are at that moment.
It reads a JSON list from each line of its input, a file for what pytest prints and the arguments of pytest, and answers
with a line that has the exit code.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Final, NoReturn

_LIBRARIES: Final = (
    *("boto3", "fastapi", "hypothesis.stateful", "obstore.store", "psycopg", "pyarrow.compute", "pydantic", "pymysql"),
    *("pyspark.sql.datasource", "pytest", "pytest_timeout", "rich", "ruamel.yaml", "sqlalchemy", "tenacity", "typer"),
)
"""Most of the time that it takes to import the tests."""


def main() -> None:
    """Serve until the input ends."""
    for name in _LIBRARIES:
        import_module(name)
    for line in sys.stdin:
        printed, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(printed, arguments)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(printed: str, arguments: list[str]) -> NoReturn:
    """In the fork, which ends here, whatever pytest raises."""
    code = 70
    try:
        nothing, output = os.open(os.devnull, os.O_RDONLY), os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = int(import_module("pytest").main(arguments))
        sys.stdout.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
