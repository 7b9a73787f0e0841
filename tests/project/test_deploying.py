"""What docs/how-to/deploying.md says to type, and the files of docker/ that it names."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from connectors.spec import load_spec
from spark_jobs.cli import run_command_line
from spark_jobs.submit.line import APPLICATION

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
PAGE = (ROOT / "docs" / "how-to" / "deploying.md").read_text()
LINES = re.findall(r"^eos submit (.*)$", PAGE, re.MULTILINE)
VARIABLES = {"KAFKA": "k:1", "WAREHOUSE": "mysql+pymysql://u:p@h/d"}


def _yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path)


_SPARK = "spark: {master: yarn, conf: {spark.authenticate: true, spark.network.crypto.enabled: true}}\n"


@pytest.mark.parametrize("line", LINES)
def test_every_submission_is_a_line_of_spark_submit(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the example, on YARN, whose location is on a disk that the driver finds again."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "specs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    spec = (ROOT / "examples" / "orders" / "orders.yaml").read_text()
    spec = spec.replace("./checkpoints/orders", str(tmp_path / "orders")) + _SPARK
    (folder / "orders.yaml").write_text(spec)
    (folder / "environment.tar.gz").touch()
    given = [f"spark.yarn.appMasterEnv.{name}={value}" for name, value in VARIABLES.items()]
    (folder / "driver.conf").write_text("\n".join(given))
    ours, dashes, theirs = line.partition(" -- ")
    assert run_command_line(["submit", *shlex.split(ours), "--dry-run", *shlex.split(dashes + theirs)]) == 0
    assert f"spark-submit --master yarn --deploy-mode {'cluster' if 'cluster' in ours else 'client'}" in (
        capsys.readouterr().out
    )


def test_the_page_has_submissions() -> None:
    assert len(LINES) == 4
    assert f"spark_jobs/cli/application/{APPLICATION.name}" in PAGE
    assert APPLICATION.is_file()


def test_the_profile_all() -> None:
    """Of all that is mounted every file is there, and what two services must say alike they do."""
    services = _yaml(DOCKER / "compose.yaml")["services"]
    assert {name for name, each in services.items() if "all" in each.get("profiles", [])} == set(services) - {
        *("kafka", "mysql", "registry")
    }
    mounts = [mount.split(":")[0] for each in services.values() for mount in each.get("volumes", [])]
    here = [mount for mount in mounts if mount.startswith("./")]
    assert len(here) == 6
    assert all((DOCKER / mount).is_dir() for mount in here)
    (source,) = _yaml(DOCKER / "grafana" / "provisioning" / "datasources" / "prometheus.yaml")["datasources"]
    dashboard = json.loads((DOCKER / "grafana" / "dashboards" / "eos.json").read_text())
    assert {target["datasource"]["uid"] for panel in dashboard["panels"] for target in panel.get("targets", [])} == {
        source["uid"]
    }
    load_spec(DOCKER / "shop" / "orders.yaml", services["eos"]["environment"])


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="there is no docker-compose")
def test_compose_reads_all_services() -> None:
    command = ["docker-compose", "-f", str(DOCKER / "compose.yaml"), "--profile", "all", "--profile", "registry"]
    done = subprocess.run([*command, "config"], capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    services = YAML(typ="safe").load(done.stdout)["services"]
    assert set(services) == {"kafka", "mysql", "registry", "eos", "feed", "prometheus", "grafana"}
    ports = [str(port) for each in services.values() for port in each.get("ports", [])]
    assert len(ports) == 6
    assert all("127.0.0.1" in port for port in ports)


def test_the_unit_stops_a_driver_as_the_page_says() -> None:
    """integration_tests/test_systemd.py runs the unit, where there is systemd."""
    unit = (DOCKER / "systemd" / "eos@.service").read_text()
    for setting in ("KillMode=mixed", "Restart=on-failure", "PrivateTmp"):
        assert setting in unit
        assert f"`{setting}`" in PAGE
    assert "\nRestartPreventExitStatus=2\n" in unit
    assert "\n```ini\n[Service]\nRestartPreventExitStatus=\n```\n" in PAGE, "for secret stores, which may be away"
    assert "\nTimeoutStopSec=11min\n" in unit
    (stop,) = re.findall(r"^sudo -u eos -- sh -c '(.*)'$", PAGE, re.MULTILINE)
    assert stop in (ROOT / "integration_tests" / "test_systemd.py").read_text(), "the test runs this line"


def test_the_walk_installs_the_wheel_that_the_readme_builds() -> None:
    """The name is not asked of an index, where another project might have it."""
    walk = PAGE.partition("## With systemd")[2].partition("```\n")[2].partition("```")[0]
    readme = (ROOT / "README.md").read_text()
    assert "\nscripts/release\npip install dist/*.whl\n" in readme
    assert "\n/opt/eos/bin/pip install dist/*.whl\n" in walk
    assert walk.startswith("umask 022\n"), "root's may keep the user of the unit out of /opt/eos"
    (unit,) = re.findall(r"^install --mode=644 (\S+) /etc/systemd/system/$", walk, re.MULTILINE)
    assert (ROOT / unit).is_file()
