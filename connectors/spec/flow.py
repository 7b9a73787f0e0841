"""Where the flow of a pipeline divides, for sinks that take different rows.

Sinks that read a common source are a group. The *root* of a group is the last source or step through which the rows of
all its sinks pass. Up to its roots a pipeline is one streaming query, which reads each source once and may keep state.
The steps behind a root, the branches, process each checkpoint's rows separately and may keep no state. The only root of
a pipeline is its *trunk*.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from connectors.api.model import wrong
from connectors.spec.table_names import COMMENT, TOKENS

Inputs = Mapping[str, Sequence[str]]
"""By the name of each source and step, in the order of the spec: what it reads."""

_JAVA: Final = ("reflect", "try_reflect", "java_method")
_CALLS: Final = re.compile(rf"`?\b({'|'.join(_JAVA)})\b`?\s*\(", re.IGNORECASE)
_SCRIPT: Final = re.compile(r"\busing\s*''", re.IGNORECASE)  # of TRANSFORM, MAP and REDUCE; a join has columns there
_ASIDE: Final = re.compile(
    rf"(?P<text>\b[rR](?:'[^']*'|\"[^\"]*\")|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")|{COMMENT}",
    re.DOTALL,
)
"""Text and comments."""

_QUERY_WORDS: Final = frozenset({"select", "with", "from", "values", "table", "map", "reduce"})


_COMPUTED: Final = re.compile(r"\bidentifier\s*\(\s*(?!''\s*\))", re.IGNORECASE)


def computes_a_name(sql: str) -> bool:
    """Whether SQL has IDENTIFIER with anything but one text: then nothing could tell beforehand what it names."""
    return _COMPUTED.search(_without_texts(sql)) is not None


def _without_texts(sql: str) -> str:
    """SQL with an empty text for each text, and a blank for each comment."""
    return _ASIDE.sub(lambda found: "''" if found["text"] else " ", sql)


def command_in(sql: str) -> str:
    """Return the first word of SQL that cannot be a query, in capitals; empty for one that may be.

    Spark's own parser tells the rest when a pipeline starts: see spark_jobs.query.one_query.
    """
    plain = _without_texts(sql)
    first = re.match(r"[\s(]*(\w+)", plain)
    return first[1].upper() if first is not None and first[1].lower() not in _QUERY_WORDS else ""


def code_in(sql: str) -> str:
    """What of Spark SQL a query takes to run Java by its name, or a program of the machine; empty: nothing.

    What the text shows, without Spark: a start looks at the query as Spark understands it (spark_jobs.query.one_query).
    """
    called = [match["called"].lower() for match in TOKENS.finditer(sql) if match["called"]]
    plain = _without_texts(sql)
    if _SCRIPT.search(plain):
        return "TRANSFORM … USING"
    calls = [found.lower() for found in _CALLS.findall(plain)]
    return next((f"{name}()" for name in (*calls, *called) if name in _JAVA), "")


def without_code(sql: str, instead: str) -> str:
    """Return the SQL. Raises ValueError, a mistake of the spec, if it runs code or computes a name.

    `instead`: what the message allows in place of code.
    """
    if computes_a_name(sql):
        raise wrong("IDENTIFIER computes a name", "IDENTIFIER('name')", "the name itself")
    if found := code_in(sql):
        raise wrong(f"{found} runs code by its name", instead)
    return sql


def trunk_of(inputs: Inputs, sources: Iterable[str], wanted: Iterable[str]) -> str | None:
    """The last name through which all rows of these come; None if there is none.

    A step that no source feeds, such as a list of constants, brings no rows of its own.
    """
    passed: dict[str, set[str]] = {name: {name} for name in sources}
    for name, reads in inputs.items():
        before = [passed[each] for each in reads if each in passed]
        if before:
            passed[name] = {name} | set.intersection(*before)
    ways = [passed.get(name, set()) for name in wanted]
    common = set.intersection(*ways) if ways else set()
    return next((name for name in reversed(list(inputs)) if name in common), None)


def groups_of(inputs: Inputs, sources: Iterable[str], wanted: Iterable[str]) -> list[list[str]]:
    """Divide these names into groups: names that read a common source, directly or through other names, share a group.

    The groups are in the order of their first sources. A name that no source feeds is a group of its own.
    """
    order = {name: place for place, name in enumerate(sources)}
    groups: list[tuple[set[str], list[str]]] = []
    for name in dict.fromkeys(wanted):
        feeding, names = sources_of(inputs, order, name), [name]
        joined = [group for group in groups if group[0] & feeding]
        groups = [group for group in groups if group not in joined]
        groups.append((feeding.union(*(each for each, _ in joined)), [*(n for _, of in joined for n in of), *names]))
    groups.sort(key=lambda group: min((order[each] for each in group[0]), default=len(order)))
    return [names for _, names in groups]


def sources_of(inputs: Inputs, sources: Iterable[str], name: str) -> set[str]:
    """Return the sources that feed a source or step."""
    return set(sources) & {name, *behind(inputs, (), [name])}


def roots_of(inputs: Inputs, sources: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """Return the root of each group of these names, in the order of the groups; empty if a group has none."""
    names = list(sources)
    roots = [trunk_of(inputs, names, group) for group in groups_of(inputs, names, wanted)]
    found = [root for root in roots if root is not None]
    return found if len(found) == len(roots) else []


def behind(inputs: Inputs, roots: Collection[str], wanted: Iterable[str]) -> list[str]:
    """The steps between the roots and these, in order."""
    needed: set[str] = set()
    waiting = [name for name in wanted if name not in roots]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += [each for each in inputs[name] if each not in roots]
    return [name for name in inputs if name in needed]


def root_of(inputs: Inputs, roots: Collection[str], name: str) -> str | None:
    """Return the root through which the rows of a source or step pass; None if it is not behind a root."""
    read = {name, *behind(inputs, roots, [name])}
    passed = {each for one in read for each in (one, *inputs.get(one, ()))}
    return next((root for root in roots if root in passed), None)
