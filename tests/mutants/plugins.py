"""Mutants of the lookup of plugins."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PLUGINS: Final = "connectors/api/plugins.py"
_TESTS: Final = "tests/connectors/api/test_plugins.py::"
_ANSWERS: Final = "tests/connectors/stores/test_answers.py::"
_RULE: Final = "docs/tutorial/plugins.md, Errors"
_BROKEN: Final = f"{_TESTS}test_one_that_cannot_be_used_is_one_error_and_breaks_no_other_spec"

MUTANTS: Final = (
    Mutant(
        name="a method that a writer inherits from the contract counts as its own",
        rule=_RULE,
        path="connectors/members.py",
        before="found is _ABSENT or (found is declared and declared is not None)",
        after="found is _ABSENT",
        caught_by=("tests/connectors/test_members.py::test_a_member_that_is_inherited_from_the_contract_is_missing",),
    ),
    Mutant(
        name="a method that a writer lacks is found missing when it is called",
        rule=_RULE,
        path="connectors/members.py",
        before="found is _ABSENT or (found is declared and declared is not None)",
        after="found is declared and declared is not None",
        caught_by=("tests/connectors/test_members.py::test_a_member_of_an_older_version_is_missing",),
    ),
    Mutant(
        name="a store's None is a slot without a token",
        rule="R2",
        path="connectors/stores/answers.py",
        before="    if not isinstance(found, str):\n",
        after="    if found is not None and not isinstance(found, str):\n",
        caught_by=(f"{_ANSWERS}test_a_token_that_is_no_text_is_not_taken_for_an_empty_slot",),
    ),
    Mutant(
        name="any true value of a store counts the rows",
        rule="R7",
        path="connectors/stores/answers.py",
        before="    if not isinstance(found, bool):\n",
        after="    if found is None:\n",
        caught_by=(f"{_ANSWERS}test_a_true_value_that_is_not_true_counts_no_rows",),
    ),
    Mutant(
        name="an exit in a store ends the process",
        rule=_RULE,
        path="connectors/foreign.py",
        before="    except (Exception, SystemExit, KeyboardInterrupt) as error:\n",
        after="    except (Exception, KeyboardInterrupt) as error:\n",
        caught_by=("tests/connectors/test_foreign.py::test_an_error_of_other_code_becomes_one_of_the_framework",),
    ),
    Mutant(
        name="a position that head cannot store is planned",
        rule="R6",
        path="twophase/positions.py",
        before="    if type(value) is str and _is_unicode(value):\n",
        after="    if type(value) is str:\n",
        caught_by=("tests/twophase/test_positions.py::test_what_head_cannot_store_is_no_position",),
    ),
    Mutant(
        name="a program keeps the variables of Spark's processes",
        rule="docs/reference/api.md",
        path="spark_jobs/session/spark_session.py",
        before="@restored(_FOR_CHILDREN)\n",
        after="",
        caught_by=("tests/eos/test_run.py::test_a_failed_start_of_spark_leaves_the_process_as_it_was",),
    ),
    Mutant(
        name="a namespace package is not known in the archive of the workers",
        rule=_RULE,
        path="spark_jobs/session/shipping.py",
        before='            archive.writestr(zipfile.ZipInfo(folder, _EPOCH), b"")',
        after="            pass",
        caught_by=("tests/spark_jobs/session/test_plugin_modules.py::test_a_plugin_is_sent_whatever_its_form",),
    ),
    Mutant(
        name="a plugin of another version of the interface is taken",
        rule=_RULE,
        path=_PLUGINS,
        before="    if type(declared) is not int or declared != API_VERSION:\n",
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
