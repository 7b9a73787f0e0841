"""`eos explain`: a section of the error catalogue in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.text import Text

from connectors.api.mistakes import nearest
from eos.errors import SpecError, link_of
from spark_jobs.cli.catalogue import CATALOGUE
from spark_jobs.cli.options import AsJson, Debug
from spark_jobs.cli.output import out

Code = Annotated[
    str | None,
    typer.Argument(metavar="CODE", show_default=False, help="A code as an error prints it; default: list all codes."),
]


def explain(code: Code = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Print the meaning of an error's code, its usual causes, and their remedies.

    The last line of an error has its code.

    Exit code: 0; 2 if the code is unknown.

    Examples:

        eos explain EOS-UNKNOWN-TOPIC

        eos explain
    """
    if code is None:
        meanings = {each: section.meaning for each, section in CATALOGUE.items()}
        if as_json:
            out.facts({"ok": True, "codes": meanings})
        else:
            out.show(*(out.text(f"{each}: {meaning}") for each, meaning in meanings.items()))
        return
    name = code.upper()
    if name not in CATALOGUE:
        near = nearest(name, CATALOGUE)
        meant = f"; did you mean {near}?" if near else ""
        raise SpecError(f"the code {code!r} is unknown{meant}", remedy="`eos explain` lists all codes")
    if as_json:
        causes = [{"cause": cause, "remedy": remedy} for cause, remedy in CATALOGUE[name].causes]
        facts = {"code": name, "meaning": CATALOGUE[name].meaning, "causes": causes, "link": link_of(name)}
        out.facts({"ok": True, **facts})
    else:
        out.show(*_lines(name))


def _lines(code: str) -> Iterator[Text]:
    yield out.text(code, "bold")
    yield out.text(CATALOGUE[code].meaning)
    for cause, remedy in CATALOGUE[code].causes:
        yield out.text(f"\n- {cause}")
        yield out.text(f"  {remedy}")
    yield out.text("")
    link = out.text(link_of(code))
    link.no_wrap, link.overflow = True, "ignore"  # a terminal opens it only if it is on one line
    yield link
