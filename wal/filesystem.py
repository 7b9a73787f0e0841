"""Which filesystem a path is on. Network filesystems are refused: a link and a sync promise too little there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from wal.errors import NetworkFilesystemError

_MOUNTS: Final = Path("/proc/self/mounts")

_NETWORK: Final = re.compile(
    r"9p|acfs|afpfs|afs|beegfs|ceph|cifs|coda|davfs|gfs2?|glusterfs|gpfs|lustre|ncp(fs)?|nfs4?|ocfs2|orangefs|panfs|"
    r"pvfs2|smb[23]|smbfs|"
    r"fuse\.(\w+-)?(s3|sshfs|gcs|goof|rclone|gluster|ceph|mount\.davfs|davfs|curlftpfs|blobfuse|moosefs|mfs|juicefs|"
    r"lizard|seaweed|smb|nfs|hdfs|alluxio|google|onedrive|grpcfuse).*"
)


def refuse_network_filesystem(path: Path, mounts: Path = _MOUNTS) -> None:
    """Raise NetworkFilesystemError if `path`, or the nearest parent of it that exists, is on a network filesystem.

    **Called** once per location at a start; reads one small file. Where the system has no list of mounts (it is not
    Linux) nothing is known and nothing is refused. Source: H21.
    """
    kind = filesystem_of(path, mounts)
    if kind is not None and is_network(kind):
        message = f"{path} is on a network filesystem ({kind})"
        raise NetworkFilesystemError(
            message, remedy="use a folder on a local disk: locks and links of network filesystems can be late or lost"
        )


def is_network(kind: str) -> bool:
    """Whether a filesystem type, as /proc/mounts spells it, keeps its files on another machine."""
    return _NETWORK.fullmatch(kind) is not None


def filesystem_of(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Type of the filesystem that holds `path` (symbolic links followed), or None where that cannot be told."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = path.resolve()
    best: tuple[int, str] | None = None
    for line in lines:
        _, point, kind, *_ = line.split(" ")
        mount = Path(_unescape(point))
        # Of two mounts on one point the later hides the earlier, hence >=.
        if place.is_relative_to(mount) and (best is None or len(mount.parts) >= best[0]):
            best = len(mount.parts), kind
    return best[1] if best else None


def _unescape(text: str) -> str:
    """The kernel writes blank, tab, newline and backslash of a mount point as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
