"""Mutants of the lookup of plugins."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PLUGINS: Final = "connectors/api/plugins.py"
_TESTS: Final = "tests/connectors/api/test_plugins.py::"
_RULE: Final = "docs/tutorial/plugins.md, Errors"
_BROKEN: Final = f"{_TESTS}test_one_that_cannot_be_used_is_one_error_and_breaks_no_other_spec"

MUTANTS: Final = (
    Mutant(
        name="a plugin of another version of the interface is taken",
        rule=_RULE,
        path=_PLUGINS,
        before="    if declared != API_VERSION:\n",
        after="    if declared is None:\n",
        caught_by=(_BROKEN,),
    ),
    Mutant(
        name="a class that is no entry is taken",
        rule=_RULE,
        path=_PLUGINS,
        before="    if not isinstance(loaded, type) or not issubclass(loaded, base):\n",
        after="    if not isinstance(loaded, type):\n",
        caught_by=(_BROKEN,),
    ),
    Mutant(
        name="of two plugins of one name the first one is taken",
        rule=_RULE,
        path=_PLUGINS,
        before="    if len(plugins) > 1:\n",
        after="    if not plugins:\n",
        caught_by=(
            f"{_TESTS}test_two_plugins_of_one_name",
            f"{_TESTS}test_a_name_that_is_taken_is_refused_where_it_is_used",
        ),
    ),
    Mutant(
        name="a plugin that cannot be imported breaks the schema",
        rule=_RULE,
        path="connectors/api/choice.py",
        before="                continue  # `eos connectors` reports it\n",
        after="                raise\n",
        caught_by=(_BROKEN,),
    ),
)
