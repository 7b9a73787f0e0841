"""H21: head is never opened on a network filesystem, whose links and syncs promise too little for a register."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from connectors.registry import open_head
from connectors.spec import Spec
from eos.errors import SpecError
from wal import filesystem


def test_h21_a_head_on_a_network_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = tmp_path / "checkpoints"
    spec = cast("Spec", SimpleNamespace(checkpoint=SimpleNamespace(head=None, location_at=location, folder=location)))
    monkeypatch.setattr(filesystem, "filesystem_of", lambda _path, _mounts: "nfs4")
    with pytest.raises(SpecError, match="network filesystem") as refused:
        open_head(spec)
    assert "checkpoint.head" in refused.value.remedy
    assert not location.exists()

    monkeypatch.setattr(filesystem, "filesystem_of", lambda _path, _mounts: "ext4")
    open_head(spec).close()
    assert (location / "head").is_dir()
