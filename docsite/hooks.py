"""Hooks of MkDocs. They run in `.docs-venv`, which has no package of this project except this one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from docsite import llms

_ROOT = Path(__file__).resolve().parents[1]
_PYTHON = _ROOT / ".venv" / "bin" / "python"


def on_config(config: Any) -> None:
    """Show the list of versions only in a site that mike deploys, because it requests `versions.json` of the site."""
    if not os.environ.get("EOS_DOCS_VERSIONS"):
        config["extra"].pop("version", None)


def on_pre_build(config: Any) -> None:
    """Collect the pages, because `serve` rebuilds after a change of docs/."""
    del config
    subprocess.run([_PYTHON, "-m", "docsite"], cwd=_ROOT, check=True)


def on_post_build(config: Any) -> None:
    """Write the copies for language models into the site."""
    navigation = {section: [*_paths(entries)] for each in config["nav"] for section, entries in each.items()}
    llms.write(navigation, Path(config["docs_dir"]), Path(config["site_dir"]))


def _paths(entries: Any) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    values = entries.values() if isinstance(entries, dict) else entries
    return [path for each in values for path in _paths(each)]
