"""The Python of the workers: it has every third-party package, and nothing of the project."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

_PROJECT = ("eos", "wal", "twophase", "connectors", "spark_jobs", "integration_tests", "examples")
_FIND = "import importlib.util, sys; print([name for name in sys.argv[1:] if importlib.util.find_spec(name)])"


def make_interpreter(folder: Path) -> Path:
    """A virtual environment whose packages are those of this one, borrowed by path; returns its python.

    An editable installation is a `.pth` file, and Python reads such files only in the folders of its own environment:
    here the project is not to be seen. A task finds it only if it was shipped.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    own.mkdir(parents=True, exist_ok=True)
    borrowed = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (own / "borrowed.pth").write_text("".join(f"{path}\n" for path in borrowed))
    found = subprocess.run(
        [python, "-c", _FIND, "pyspark", *_PROJECT], capture_output=True, text=True, check=True, cwd=folder, env={}
    ).stdout.strip()
    assert found == "['pyspark']", f"the workers' Python must see PySpark and nothing of the project, and sees {found}"
    return python


if __name__ == "__main__":
    print(make_interpreter(Path(sys.argv[1])))
