"""Java's properties files, the form in which spark-submit takes settings from a file. Imports no Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from eos.errors import SpecError

_PROPERTY: Final = re.compile(r"\s*([^#!\s=:][^\s=:]*)\s*[\s=:]\s*(.*?)\s*")
_PLAIN: Final = re.compile(r"[\w.\-/,@+ ]", re.ASCII)


def read_properties(file: Path) -> dict[str, str]:
    """Read the settings of a file, one a line. Raises SpecError if it cannot be read."""
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}", remedy="give a file that is there") from None
    return {match[1]: match[2] for line in lines if (match := _PROPERTY.fullmatch(line))}


def spark_home_of(environ: Mapping[str, str]) -> Path:
    """Return the home of Spark that the user has chosen, else PySpark's package."""
    return Path(environ.get("SPARK_HOME") or Path(str(getattr(find_spec("pyspark"), "origin", ""))).parent)


def spark_defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """Read the settings of spark-defaults.conf, where spark-submit finds it. Raises SpecError if it cannot be read."""
    folder = environ.get("SPARK_CONF_DIR") or spark_home_of(environ) / "conf"
    file = Path(folder, "spark-defaults.conf")
    return read_properties(file) if file.is_file() else {}


def as_properties(settings: Mapping[str, str]) -> str:
    """Return a file's text from which Java reads exactly these settings, in any encoding that extends ASCII."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    """Escape all but plain characters. Java takes a blank at the start of a value for a part of the separator."""
    units = memoryview(text.encode("utf-16-le")).cast("H")
    shown = "".join(chr(u) if u < 128 and _PLAIN.fullmatch(chr(u)) else f"\\u{u:04x}" for u in units)
    return shown.replace(" ", "\\u0020")
