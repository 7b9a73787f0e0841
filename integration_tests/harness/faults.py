"""The test's side of `twophase.faults`: arm a point, see who stopped there, let it go on."""

from __future__ import annotations

from pathlib import Path


class Faults:
    """One folder of fault points, for one process tree.

    A stem names a point (`prepared`), or a point in one checkpoint (`prepared@3`).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def arm(self, stem: str) -> None:
        """Stop the first process that comes to this point from now on; after `<stem> raise` it fails there instead.

        Again: only when nobody waits there any more.
        """
        stem, _, content = stem.partition(" ")
        (self.folder / f"{stem}.stopped").unlink(missing_ok=True)
        (self.folder / f"{stem}.go").unlink(missing_ok=True)
        (self.folder / f"{stem}.arm").write_text(content)

    def stopped(self, stem: str) -> int | None:
        """The process id of who waits there, None as long as nobody does."""
        try:
            return int((self.folder / f"{stem}.stopped").read_text())
        except FileNotFoundError:
            return None

    def release(self, stem: str) -> None:
        """Let whoever waits there go on."""
        (self.folder / f"{stem}.go").write_text("")
