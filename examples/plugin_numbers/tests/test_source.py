"""The source, by the suite that ships with eos-spark. The input is a file with the bound."""

from collections.abc import Mapping
from pathlib import Path

from eos_numbers.source import Numbers

from eos.testing import Damage, SourceCompliance


class TestNumbers(SourceCompliance):
    def make_source(self, folder: Path) -> Numbers:
        bound = folder / "bound"
        return Numbers(int(bound.read_text()) if bound.exists() else 0)

    def append(self, folder: Path, numbers: range) -> None:
        (folder / "bound").write_text(str(numbers.stop))

    def damages(self) -> Mapping[str, Damage]:
        def removed(folder: Path) -> None:
            (folder / "bound").write_text("10")

        return {"removed": removed}
