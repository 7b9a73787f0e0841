"""The parts of the build that setup.cfg cannot state: the long description, and the example in the wheel."""

from __future__ import annotations

import re
import shutil
from configparser import ConfigParser
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_HERE = Path(__file__).parent
_EXAMPLE = _HERE / "examples" / "eos"
_EXAMPLE_FILES = ("chain.py", "pipeline-sqlite.yaml")
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?://|#)(?P<path>[^)\s]+)\)")


def long_description() -> str:
    """Return README.md with absolute links: a package index has none of the files that it links to."""
    config = ConfigParser()
    config.read(_HERE / "setup.cfg")
    repository = dict(line.split(" = ") for line in config["metadata"]["project_urls"].strip().splitlines())["Source"]
    tag = f"v{config['metadata']['version']}"
    raw = f"{repository.replace('//github.com/', '//raw.githubusercontent.com/')}/{tag}"

    def absolute(link: re.Match[str]) -> str:
        base = raw if link["image"] else f"{repository}/blob/{tag}"
        return f"{link['image']}[{link['text']}]({base}/{link['path']})"

    return _LINK.sub(absolute, (_HERE / "README.md").read_text())


class WithExample(build_py):
    """A build that copies the files of `eos demo` from examples/eos into the package."""

    def run(self) -> None:
        """Copy the package, then the example. An editable install reads examples/eos itself."""
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib, "spark_jobs", "demo", "example")
        folder.mkdir(parents=True, exist_ok=True)
        for name in _EXAMPLE_FILES:
            shutil.copy(_EXAMPLE / name, folder)


setup(
    long_description=long_description(),
    long_description_content_type="text/markdown",
    cmdclass={"build_py": WithExample},
)
