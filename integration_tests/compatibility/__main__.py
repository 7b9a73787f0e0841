"""Runs cells of the matrix: scripts/matrix --help."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from integration_tests.compatibility import record
from integration_tests.harness.pipeline_process import PROJECT
from integration_tests.services import ServiceError, Services, obtain
from integration_tests.services.maven_jars import cache_folder
from integration_tests.services.obtain import KINDS
from integration_tests.services.state import exclusive

_VERSIONS: Final = ("3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0")
_OTHER_PYTHONS: Final = ("3.12", "3.13", "3.14")
"""Run with the newest PySpark only. The others run with Python 3.11."""
_PACKAGES: Final = (
    "confluent-kafka",
    "cryptography",
    "fastapi",
    "googleapis-common-protos",  # this one and the next three: Spark Connect
    "grpcio",
    "grpcio-status",
    "zstandard",
    "moto[server]",  # this one and the next: an object store for state
    "boto3",
    "obstore",
    "pandas",
    "prometheus-client",
    "protobuf",
    "psutil",
    "psycopg[binary]",
    "pyarrow",
    "pydantic",
    "pymysql",
    "pytest",  # helpers of the tests import it
    "pyyaml",  # declarative pipelines
    "rich",
    "ruamel.yaml",
    "setuptools",  # PySpark 3.5 on Python 3.12
    "sqlalchemy",
    "sqlglot",
    "tenacity",
    "typer",
    "uvicorn",
)
_CELL_S: Final = 900
_FREE: Final = ("pyspark==", "py4j==", "#")  # lines of constraints.txt that do not bind an environment of the matrix


def main() -> int:
    """Run the chosen cells; 1 if one of them failed."""
    arguments = _parser().parse_args()
    if arguments.table:
        record.PAGE.write_text(record.with_table(record.PAGE.read_text(), record.read()))
        return 0
    cells = [
        (version, python, way)
        for version, python in [*((each, "3.11") for each in _VERSIONS), *((_VERSIONS[-1], p) for p in _OTHER_PYTHONS)]
        for way in record.COLUMNS
        if (not arguments.pyspark or version.startswith(tuple(arguments.pyspark)))
        and (not arguments.python or python in arguments.python)
        and (not arguments.way or way in arguments.way)
        and record.is_in(version, way)
    ]
    try:
        services = obtain(arguments.kind, say=_say)
    except ServiceError as error:
        _say(f"matrix: {error}")
        return 1
    revision, failed = _revision(), 0
    for version, python, way in cells:
        interpreter = shutil.which(f"python{python}")
        if interpreter is None:
            _say(f"matrix: PySpark {version}, Python {python}, {way}: python{python} is not on the PATH")
            continue
        found = {**_run(_environment(version, python, interpreter), way, services), "revision": revision}
        print(json.dumps(found), flush=True)
        if found.get("result") == "failed":
            failed += 1
        elif arguments.record:
            record.write(found)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/matrix", description="Run this project on versions of PySpark.")
    parser.add_argument("--pyspark", action="append", metavar="X.Y", help="only this version; may be repeated")
    parser.add_argument("--python", action="append", metavar="X.Y", help="only this version; may be repeated")
    parser.add_argument("--way", action="append", choices=tuple(record.COLUMNS), help="only this way; may be repeated")
    parser.add_argument("--kind", choices=KINDS, default="auto", help="where Kafka and the database come from")
    parser.add_argument("--record", action="store_true", help="write the lines to docs/compatibility/matrix.jsonl")
    parser.add_argument("--table", action="store_true", help="run nothing; write the table of the page from the lines")
    return parser


def _environment(version: str, python: str, interpreter: str) -> Path:
    """Return the interpreter of an environment with this PySpark and these packages.

    It is kept in the user's cache, and gets the packages that it lacks.
    """
    folder = cache_folder() / "matrix" / f"pyspark-{version}-python-{python}"
    own, complete = folder / "bin" / "python", folder / "complete"
    wanted = "\n".join((f"pyspark=={version}", *_PACKAGES))
    with exclusive(folder.with_suffix(".lock")):
        if not complete.exists() or complete.read_text() != wanted:
            _say(f"matrix: installing PySpark {version} for Python {python}")
            constraints = folder.with_suffix(".constraints")
            lines = (PROJECT / "constraints.txt").read_text().splitlines()
            constraints.write_text("\n".join(each for each in lines if not each.startswith(_FREE)))
            subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
            pip = [str(own), "-m", "pip", "install", "--quiet", "--constraint", str(constraints)]
            subprocess.run([*pip, "setuptools", "wheel"], check=True)
            subprocess.run([*pip, *wanted.splitlines()], check=True)
            complete.write_text(wanted)
    return own


def _run(interpreter: Path, way: str, services: Services) -> dict[str, Any]:
    """Run one cell; returns its line."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "EOS_TEST_KAFKA": services.kafka_bootstrap,
        "EOS_TEST_DATABASE": services.database_url,
        "EOS_TEST_DATABASE_ADMIN": services.admin_database_url,
    }
    command = [str(interpreter), "-m", "integration_tests.compatibility.cell", way]
    try:
        done = subprocess.run(
            command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=_CELL_S, check=False
        )
        output = done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    except subprocess.TimeoutExpired:
        output, found = f"did not end within {_CELL_S} s", {}
    if not found:
        _say(output[-3000:])
    return found or {"way": way, "interpreter": str(interpreter), "result": "failed"}


def _revision() -> str:
    git = ["git", "-C", str(PROJECT)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    changed = [*git, "status", "--porcelain", "--untracked-files=no", "--", ":!docs"]
    is_changed = bool(subprocess.run(changed, capture_output=True, text=True, check=True).stdout)
    return head.strip() + ("-changed" if is_changed else "")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
