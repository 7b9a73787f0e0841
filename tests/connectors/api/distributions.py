"""Distributions for tests: modules and metadata in a folder that is put on the path, as an installer leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent


def install(folder: Path, name: str, points: Mapping[str, Mapping[str, str]], modules: Mapping[str, str]) -> Path:
    """Write the distribution `name` 1.2.3 with these entry points, by group and name, and return the folder."""
    folder.mkdir(exist_ok=True)
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(dedent(text))
    info = folder / f"{name.replace('-', '_')}-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.3\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in found.items()) for group, found in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


SPEC = """
pipeline: orders
checkpoint: {location: ./state}
sources:
  - {name: rows, connector: kafka, bootstrap_servers: "a:1", topics: [orders], format: {type: string}}
sinks:
  - name: out
    from: rows
    connector: shelf
    box: %s
"""
"""With a box on the shelf as its sink."""

SHELF = '''
    """A sink of its own: boxes on a shelf."""

    from collections.abc import Mapping
    from typing import ClassVar, Literal

    from connectors.api.entry import SinkEntry
    from connectors.api.guarantee import Guarantee, PipelineContext, log_needs, with_each_checkpoint


    class ShelfEntry(SinkEntry):
        """`connector: shelf`: boxes on a shelf."""

        api_version: ClassVar[int] = 1
        promises: ClassVar[Mapping[str, str]] = {"write-ahead-log": "exactly-once: every box stands there once"}

        connector: Literal["shelf"]
        box: str
        """The box that takes the rows."""
        commit: Literal["write-ahead-log"] = "write-ahead-log"

        @property
        def where(self) -> str:
            return f"box {self.box}"

        def guarantee(self, context: PipelineContext) -> Guarantee:
            visible = with_each_checkpoint(context, "all at once")
            return Guarantee(self.name, self.promises[self.commit], visible, (log_needs(context),), ())
'''
