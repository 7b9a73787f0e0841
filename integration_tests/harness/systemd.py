"""A systemd of a test's own: process 1 of namespaces in which it sees only the units of the test.

Its processes are in one cgroup, and end with it. The network is that of the machine. Units see the folder of the test
as /etc/eos and /var/lib/eos, and this Python with its packages as /opt/eos.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from integration_tests.harness.pipeline_process import PROJECT
from tests.waiting import until

UNIT: Final = PROJECT / "docker" / "systemd" / "eos@.service"
"""The unit that users install."""

USER: Final = "eos"
_USER_ID: Final = 10001
_SYSTEMD: Final = Path("/lib/systemd/systemd")
_PROGRAMS: Final = ("mount", "nsenter", "setpriv", "systemctl", "systemd-analyze", "unshare")
_TARGETS: Final = ("basic", "multi-user", "network-online", "shutdown", "sysinit")
_UNITS: Final = "/etc/eos-units"
_START_S: Final = 60.0
_END_S: Final = 30.0
_POLL_S: Final = 0.05

_NAMESPACES: Final = ("--pid", "--mount", "--cgroup", "--uts", "--ipc")
_SET_UP: Final = r"""
set -eu
folder=$1 state=$2 python=$3 packages=$4 project=$5 units=$6
mount -t tmpfs tmpfs "$folder/root"
cd "$folder/root"
mkdir etc etc-work dev lib opt opt/eos opt/eos/bin opt/eos/lib opt/python opt/project
cp -a "$folder/etc/." etc
cp -a "$folder/bin/." opt/eos/bin
mount --bind "$python" opt/python
mount --bind "$packages" opt/eos/lib
mount --bind "$project" opt/project
printf 'home = /opt/python/bin\ninclude-system-site-packages = false\n' >opt/eos/pyvenv.cfg
mkdir lib/eos
mount --bind "$state" lib/eos
for each in null zero full random urandom tty; do
  touch "dev/$each"
  mount --bind "/dev/$each" "dev/$each"
done
mkdir dev/shm dev/pts dev/mqueue dev/hugepages
ln -s pts/ptmx dev/ptmx
mkfifo dev/kmsg
cat <>dev/kmsg & # to the log of this script
mount -t overlay -o "lowerdir=/etc,upperdir=$PWD/etc,workdir=$PWD/etc-work" overlay /etc
mount --rbind opt /opt
mount --rbind lib /var/lib
mount --rbind dev /dev
mount -t tmpfs tmpfs /run
umount --recursive --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount --bind "$folder/tmp" /var/tmp
mount --bind "$folder/tmp" /tmp
exec env -i PATH="$PATH" container=eos SYSTEMD_UNIT_PATH="$units" /lib/systemd/systemd \
  --system --unit=multi-user.target --log-target=kmsg --show-status=no
"""
"""Mounts that only the namespace has, then systemd. Nothing of the machine is written: not /etc, /dev, or /proc/sys."""

_PROGRAM: Final = """\
#!/opt/eos/bin/python
import sys
from spark_jobs.cli import main
sys.argv[0] = "eos"
main()
"""


def is_obtained() -> bool:
    """Return whether this user can start a systemd here."""
    has_programs = _SYSTEMD.exists() and all(map(shutil.which, _PROGRAMS))
    return has_programs and os.getuid() == 0 and os.access(_cgroups(), os.W_OK)


def _cgroups() -> Path:
    """Return where cgroups of version 2 are mounted, beside those of version 1 or instead of them."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next((Path(each[1]) for each in mounts if each[2] == "cgroup2"), Path("/nonexistent"))


def _inner_id(process: int) -> int:
    """Return the id of a process in its own namespace; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next(int(line.split()[-1]) for line in status.splitlines() if line.startswith("NSpid:"))


class Systemd:
    """As a context manager it runs inside the block. Needs root.

    `etc`: /etc/eos of its services, as it is when the block begins. `state`: their /var/lib/eos.
    `environment`: variables of all services, beside those of the unit.
    """

    def __init__(self, folder: Path, state: Path, etc: dict[str, str], environment: dict[str, str]) -> None:
        self._folder = folder
        self._state = state
        self._etc = etc
        self._environment = {"LD_LIBRARY_PATH": "/opt/python/lib", "PYTHONPATH": "/opt/project", **environment}
        self._cgroup = _cgroups() / f"eos-systemd-{os.getpid()}-{time.monotonic_ns()}"

    def __enter__(self) -> Self:
        self._write()
        self._cgroup.mkdir()
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(self, *command: str, user: str = "root", is_checked: bool = True) -> str:
        """Return the output of a command beside the services, as this user. It must succeed if `is_checked`."""
        words = ["nsenter", f"--target={self._pid}", "--pid", "--mount", "--cgroup", "--uts", "--ipc"]
        if user != "root":
            words += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        environment = {"PATH": os.environ["PATH"], "SYSTEMD_UNIT_PATH": _UNITS, **self._environment}
        done = subprocess.run([*words, *command], capture_output=True, text=True, env=environment, cwd="/", check=False)
        assert done.returncode == 0 or not is_checked, f"{command}: {done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def systemctl(self, *words: str) -> str:
        """Return the output of `systemctl`, which must succeed."""
        return self.run("systemctl", "--no-pager", *words)

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.systemctl("show", "--value", f"--property={name}", unit).strip()

    def processes(self, unit: str) -> list[int]:
        """Return the ids of a unit's processes, as this machine sees them."""
        cgroup = self.show(unit, "ControlGroup")  # empty if none runs
        path = self._cgroup / cgroup.strip("/") / "cgroup.procs"
        return list(map(int, path.read_text().split())) if cgroup and path.exists() else []

    def driver(self, unit: str) -> int:
        """Return the id of a unit's driver, as this machine sees it."""
        seen = int(self.show(unit, "MainPID"))
        return next(each for each in self.processes(unit) if _inner_id(each) == seen)

    def await_that(self, is_so: Callable[[], bool], seconds: float = _START_S) -> None:
        """Wait until a condition holds. If it does not, fail with the ends of all logs."""
        try:
            until(is_so, seconds, _POLL_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from error

    def output(self, unit: str) -> str:
        """Return all that the drivers of a unit have printed."""
        log = self._state / f"{unit}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def journal(self) -> str:
        """Return all that systemd has logged."""
        return (self._folder / "systemd.log").read_text(errors="replace")

    def logs(self) -> str:
        """Return the ends of all logs."""
        logs = (self._folder / "systemd.log", *self._state.glob("*.service.log"))
        return "\n".join(f"{log}:\n{log.read_text(errors='replace')[-4000:]}" for log in logs if log.exists())

    def _write(self) -> None:
        for each in ("root", "etc/eos", "bin", "tmp"):
            (self._folder / each).mkdir(parents=True)
        (self._folder / "tmp").chmod(0o1777)
        etc = self._folder / "etc"
        for name, text in self._etc.items():
            (etc / "eos" / name).write_text(text)
        units = etc / Path(_UNITS).name
        units.mkdir()
        shutil.copy(UNIT, units)
        for target in _TARGETS:
            (units / f"{target}.target").write_text("[Unit]\nDefaultDependencies=no\n")
        added = units / f"{UNIT.name}.d"
        added.mkdir()
        variables = "".join(f'Environment="{name}={value}"\n' for name, value in self._environment.items())
        log = "StandardOutput=append:/var/lib/eos/%n.log\nStandardError=inherit\n"  # there is no journal
        (added / "test.conf").write_text(f"[Service]\n{variables.replace('%', '%%')}{log}")
        self._add_user()
        (self._folder / "bin" / "python").symlink_to(Path("/opt/python/bin") / Path(sys.executable).resolve().name)
        program = self._folder / "bin" / "eos"
        program.write_text(_PROGRAM)
        program.chmod(0o755)

    def _add_user(self) -> None:
        etc = self._folder / "etc"
        for name, line in (
            ("passwd", f"{USER}:x:{_USER_ID}:{_USER_ID}::/var/lib/eos:/usr/sbin/nologin\n"),
            ("group", f"{USER}:x:{_USER_ID}:\n"),
        ):
            (etc / name).write_text(Path("/etc", name).read_text() + line)

    def _start(self) -> None:
        def enter() -> None:
            (self._cgroup / "cgroup.procs").write_text("0")

        packages = Path(sys.prefix) / "lib"
        words = ["sh", "-c", _SET_UP, "sh"]
        words += map(str, (self._folder, self._state, sys.base_prefix, packages, PROJECT, _UNITS))
        unshare = ["unshare", *_NAMESPACES, "--mount-proc", "--fork", "--kill-child"]
        with (self._folder / "systemd.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *unshare, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
                preexec_fn=enter,
            )
        self.await_that(self._is_ready)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, "systemd did not start"
        children = psutil.Process(self._process.pid).children()
        if not children or children[0].name() != "systemd":
            return False
        self._pid = children[0].pid
        return self.run("systemctl", "is-active", "multi-user.target", is_checked=False).strip() == "active"

    def _end(self) -> None:
        """Kill systemd and all of its services, of which process 1 of the namespace is the first."""
        (self._cgroup / "cgroup.kill").write_text("1")
        self._process.wait(_END_S)
        self.await_that(lambda: "populated 0" in (self._cgroup / "cgroup.events").read_text(), _END_S)
        for each in sorted(self._cgroup.glob("**/"), reverse=True):  # each after those in it
            with suppress(FileNotFoundError):
                each.rmdir()
