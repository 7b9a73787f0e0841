"""What Spark's Python workers are forked from: loaded once, usable in each fork, and no burden for tasks."""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connectors.registry import build_sink, build_source, task_modules
from connectors.spec import load_spec
from spark_jobs.session import spark_session
from spark_jobs.session.worker_daemon import MODULES

_SPEC = """
pipeline: loaded
checkpoint: {location: "${env:HERE}/checkpoints"}
sources:
  - name: words
    connector: kafka
    bootstrap_servers: ${env:KAFKA}
    topics: [words]
    format: {type: json, schema: "id BIGINT, word STRING"}
sinks:
  - {name: a, from: words, connector: mysql, url: "mysql+pymysql://u:${env:SECRET}@h/d", table: t, commit: two-phase}
  - {name: b, from: words, connector: postgresql, url: "${env:POSTGRES}", table: t, commit: upsert, key: [id]}
  - {name: c, from: words, connector: kafka, bootstrap_servers: "${env:KAFKA}", topic: t, commit: write-ahead-log}
  - {name: d, from: words, connector: sqlite, path: "${env:HERE}/t.db", table: t, commit: write-ahead-log}
"""
_STEP = """\
transforms:
  - {name: longer, from: [words], python: "own:longer"}
"""
_ENVIRON = {"KAFKA": "k:9092", "SECRET": "s", "POSTGRES": "postgresql+psycopg://u:p@h/d"}
_WORKERS = """
import json, os, sys
from spark_jobs.session import worker_daemon
worker_daemon.load()
for number in range(3):
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        print(os.fdopen(reading).read())
        assert os.wait()[1] == 0
        continue
    import numpy as np, pyarrow as pa, pyarrow.compute as pc
    square = np.full((700, 700), 2.0)
    table = pa.table({"key": np.arange(2_000_000) % 7, "value": np.arange(2_000_000)})
    sums = table.group_by("key").aggregate([("value", "sum")])
    facts = {
        "loaded": [name for name in sys.argv[1].split() if name in sys.modules],
        "random": float(np.random.random()),
        "product": float((square @ square)[0, 0]),
        "sum": pc.sum(sums["value_sum"]).as_py(),
    }
    os.write(writing, json.dumps(facts).encode())
    os._exit(0)
"""


_ON_A_SYSTEM = """
import runpy, sys
from pyspark import daemon
daemon.manager = lambda: print("pandas" in sys.modules)
sys.platform, sys.argv = sys.argv[1], ["daemon", "pyspark.worker"]
runpy.run_module("spark_jobs.session.worker_daemon", run_name="__main__")
"""
_FORK_OF_A_WORKER = """
import os, sys
from spark_jobs.session import worker_daemon
worker_daemon.load()

def forked(draw):
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        found = os.fdopen(reading).read()
        os.wait()
        return found
    os.write(writing, draw().encode())
    os._exit(0)

def worker():
    import numpy as np
    np.random.seed(7)
    return " ".join([repr(np.random.random()) for _ in range(2)]) + " " + step()

def step():
    import numpy as np
    np.random.seed(7)
    return forked(lambda: " ".join([repr(np.random.random()) for _ in range(2)]))

print(forked(worker))
"""


def test_three_forks_compute_with_what_was_loaded_before(tmp_path: Path) -> None:
    """Threads of OpenBLAS and pyarrow do not survive a fork: whoever waits for one would wait for ever."""
    wanted = ["pandas", "pyarrow.compute", "spark_jobs.batch.writing", *task_modules(_loaded(tmp_path))]
    found = _run(
        _WORKERS, " ".join([*wanted, "connectors.spec", "pydantic"]), {MODULES: ",".join([*wanted, "missing"])}
    )
    workers: list[dict[str, Any]] = [json.loads(line) for line in found.splitlines()]
    assert [each["loaded"] for each in workers] == [wanted] * 3  # and neither of the last two
    assert [(each["product"], each["sum"]) for each in workers] == [(2800.0, sum(range(2_000_000)))] * 3
    assert len({each["random"] for each in workers}) == 3  # a fork goes on with the generator of its parent


@pytest.mark.parametrize(("system", "loaded"), [("linux", True), ("darwin", False)])
def test_nothing_is_loaded_before_a_fork_where_that_is_known_to_end_the_fork(system: str, loaded: bool) -> None:
    """On macOS numpy computes with Accelerate as it is loaded, which no fork can use after that."""
    assert _run(_ON_A_SYSTEM, system, {}).strip() == str(loaded)


def test_what_a_step_forks_goes_on_with_the_generator_that_the_step_has_seeded() -> None:
    """Else a step with a seed and a pool of processes would give other rows each time."""
    first, second, *forked = _run(_FORK_OF_A_WORKER, "", {}).split()
    assert forked == [first, second]


def test_a_module_that_cannot_be_loaded_or_prints_does_not_end_the_daemon(tmp_path: Path) -> None:
    """The task that needs it fails with its error. Spark reads the daemon's address from stdout, and nothing else."""
    (tmp_path / "prints.py").write_text("print('hello')")
    (tmp_path / "raises.py").write_text("raise ValueError('numpy.dtype size changed')")
    done = _daemon(tmp_path, {MODULES: "raises,prints", "PYTHONPATH": os.pathsep.join([str(_PROJECT), str(tmp_path)])})
    assert len(done.stdout) == 4, (done.stdout, done.stderr)
    assert b"hello" in done.stderr


@pytest.mark.parametrize("step", [False, True])
def test_workers_load_no_file_of_the_current_folder_nor_one_beside_a_spec_of_data(
    step: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may write there, into /tmp for one. With a Python step the folder of the spec holds code."""
    here, beside = tmp_path / "here", tmp_path / "beside"
    here.mkdir()
    beside.mkdir()
    for folder in (here, beside):
        (folder / "pandas.py").write_text(f"import sys; sys.stderr.write({folder.name!r})")
    (beside / "spec.yaml").write_text(_SPEC.replace("sinks:", _STEP + "sinks:") if step else _SPEC)
    for variable in ("PYTHONSAFEPATH", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(variable, "")  # and so it is unset after the test
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PYTHONPATH", "")
    spec = load_spec(beside / "spec.yaml", _ENVIRON | {"HERE": str(tmp_path)})
    spark_session._inherit(spark_session._modules(spec), loopback=True)
    inherited = {name: os.environ[name] for name in ("PYTHONPATH", "PYTHONSAFEPATH") if name in os.environ}
    done = _daemon(here, inherited)
    assert len(done.stdout) == 4, done.stderr
    assert done.stderr == (b"beside" if step else b"")
    found = _run("import spark_jobs; print(spark_jobs.__file__)", "", inherited, here)
    assert found.strip() == str(Path(spark_session.__file__).parents[1] / "__init__.py"), (
        "the driver's, installed or not"
    )


@pytest.mark.parametrize("number", range(4))
def test_a_sink_takes_nothing_of_the_spec_to_its_tasks(tmp_path: Path, number: int) -> None:
    """Text that came through a substitution has a class of its own there, and a task would load its package."""
    spec = _loaded(tmp_path)
    assert "connectors.spec" not in _words(build_sink(spec, spec.sinks[number]))


def test_a_source_takes_nothing_of_the_spec_to_its_tasks(tmp_path: Path) -> None:
    assert "connectors.spec" not in _words(build_source(_loaded(tmp_path).sources[0]))


def _words(pickled: object) -> str:
    found = [argument for _, argument, _ in pickletools.genops(pickle.dumps(pickled)) if isinstance(argument, str)]
    assert any("connectors." in each for each in found)
    return " ".join(found)


def _loaded(tmp_path: Path) -> Any:
    path = tmp_path / "loaded.yaml"
    path.write_text(_SPEC)
    return load_spec(path, _ENVIRON | {"HERE": str(tmp_path)})


_PROJECT = Path(__file__).parents[3]


def _daemon(folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """A daemon as Spark starts it, which is told at once to end."""
    command = [sys.executable, "-m", "spark_jobs.session.worker_daemon", "pyspark.worker"]
    own = {"PATH": "/usr/bin:/bin", **environ}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, cwd=folder, env=own, timeout=60, check=False
    )


def _run(code: str, argument: str, environ: dict[str, str], folder: Path = _PROJECT) -> str:
    command = [sys.executable, "-c", code, argument]
    own = {"PATH": "/usr/bin:/bin", **environ}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=own, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
