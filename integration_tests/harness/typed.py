"""The commands of a page of the docs, as they stand there, typed into a shell."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Final

from integration_tests.harness import database_client
from integration_tests.harness.pipeline import Pipeline
from integration_tests.harness.pipeline_process import PROJECT, child_environment

COMMAND_S: Final = 300


def blocks(page: str, heading: str = "", kind: str = "sh") -> list[str]:
    """What is to be typed in that paragraph of docs/`page`, or in all of it. `kind`: how it is fenced."""
    text = (PROJECT / "docs" / page).read_text()
    if heading:
        section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        assert section is not None, f"docs/{page} has no paragraph {heading!r}"
        text = section[1]
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def block(page: str, heading: str, title: str, kind: str = "sh") -> str:
    """The one in that paragraph whose first line is a comment with this title."""
    (found,) = (each for each in blocks(page, heading, kind) if each.splitlines()[0].lstrip("#- ") == title)
    return found


def type_in(pipeline: Pipeline, *typed: str) -> str:
    """Type these into one shell in the pipeline's folder; returns what they print. A run ends when it has caught up.

    The spec is `orders.yaml`, and the clients of its database find it without being told.
    """
    pipeline.write_spec().rename(pipeline.folder / "orders.yaml")
    database_client.install(pipeline.folder / "bin")
    script = re.sub(r"^(eos run orders\.yaml.*)$", r"\1 --until-caught-up", "".join(typed), flags=re.MULTILINE)
    path = f"{pipeline.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=pipeline.folder,
        env={**child_environment(pipeline.environment), "PATH": path},
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout
