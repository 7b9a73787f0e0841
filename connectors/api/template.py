"""Templates of entries, from which `eos init` writes a spec."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """The text of one entry. In `entry`, `<topic>`, `<table>` and `<format>` stand for the values of the new spec."""

    title: str  # the service, for people
    variable: str  # the environment variable with its address; empty: the entry needs none
    example: str  # a value of the variable
    entry: str  # lines of YAML, indented by four, from `connector:` on
    before: str = ""  # a command for the user, to run before the first start
    columns: str = ""  # of a source without `<format>`: the columns that the first step selects
    is_default: bool = False  # for `eos init` without a connector's name
