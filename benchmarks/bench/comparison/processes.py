"""Processes as /proc shows them: what trees of them have used, and connections to a port."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ESTABLISHED, _LISTENS = "01", "0A"


@dataclass(frozen=True, slots=True)
class Process:
    """One of them."""

    parent: int
    cpu_s: float  # its own, and that of its children that have ended
    rss_mb: float


def process(stat: str) -> Process:
    """From the text of /proc/<pid>/stat; the name in it may hold anything, brackets too."""
    fields = stat.rpartition(")")[2].split()
    return Process(int(fields[1]), sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE / 2**20)


def tree(processes: Mapping[int, Process], roots: Iterable[int]) -> set[int]:
    """These that live, and all that descend from them."""
    found = {root for root in roots if root in processes}
    while more := {pid for pid, each in processes.items() if each.parent in found} - found:
        found |= more
    return found


def used(processes: Mapping[int, Process], roots: Iterable[int]) -> tuple[float, float]:
    """CPU seconds and resident MiB of these trees; a page that two processes share counts twice."""
    found = [processes[pid] for pid in tree(processes, roots)]
    return sum(each.cpu_s for each in found), sum(each.rss_mb for each in found)


def connected(sockets: str, port: int) -> set[str]:
    """Connections to this port, as the links in /proc/<pid>/fd name them; from the text of /proc/net/tcp."""
    lines = [line.split() for line in sockets.splitlines()[1:]]
    return {_link(line) for line in lines if line[3] == _ESTABLISHED and _port(line[2]) == port}


def busy(stat: str) -> float:
    """CPU seconds of the whole machine, from the text of /proc/stat."""
    user, nice, system, _idle, _waiting, *others = map(int, stat.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(others)) / _TICKS


def all_processes() -> dict[int, Process]:
    """By process id. One that ends meanwhile is left out."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = process((folder / "stat").read_text(errors="replace"))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def name(pid: int) -> str:
    """Of its program; empty for one that has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    return ""


def threads(pid: int) -> list[tuple[int, str, float]]:
    """Of a process: id, the beginning of the name, CPU seconds. Those that end meanwhile are left out."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for folder in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                stat = (folder / "stat").read_text(errors="replace")
                found.append((int(folder.name), stat[stat.index("(") + 1 : stat.rindex(")")], process(stat).cpu_s))
    return found


def connections(pids: Iterable[int], port: int) -> int:
    """Of these processes to a port, over IPv4 and IPv6."""
    wanted = {link for text in _sockets() for link in connected(text, port)}
    return sum(link in wanted for pid in pids for link in _open(pid))


def busy_s() -> float:
    """CPU seconds of the machine so far."""
    return busy(Path("/proc/stat").read_text())


def listener(port: int) -> int | None:
    """Who listens on a port of this machine, where this user may see it."""
    lines = [line.split() for text in _sockets() for line in text.splitlines()[1:]]
    wanted = {_link(line) for line in lines if line[3] == _LISTENS and _port(line[1]) == port}
    return next((pid for pid in all_processes() if not wanted.isdisjoint(_open(pid))), None)


def _open(pid: int) -> list[str]:
    """What its file descriptors lead to; nothing of one that has ended, or is another user's."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found.append(str(link.readlink()))
    return found


def _link(line: list[str]) -> str:
    return f"socket:[{line[9]}]"


def _sockets() -> list[str]:
    return [Path("/proc/net", name).read_text() for name in ("tcp", "tcp6")]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
