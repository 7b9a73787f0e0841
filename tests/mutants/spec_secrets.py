"""Wrong lines of the masking: secrets of a spec that show."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SECRETS: Final = "connectors/api/masking.py"
_MASKING: Final = "docs/how-to/security.md, Secrets"
_QUOTED: Final = "tests/connectors/spec/test_secrets.py::test_a_secret_is_masked_however_it_is_quoted"
_JSON_NAMES: Final = "tests/connectors/spec/test_secrets.py::test_names_in_json_are_masked_as_values_are"
_NO_MISTAKE: Final = "tests/connectors/spec/test_secrets.py::test_no_mistake_shows_a_secret"

MUTANTS: Final = (
    Mutant(
        name="a secret that is quoted for a URL is not masked",
        rule=_MASKING,
        path=_SECRETS,
        before='        quote(secret, safe=""),\n',
        after="",
        caught_by=(_QUOTED,),
    ),
    Mutant(
        name="a secret that is quoted for a form is not masked",
        rule=_MASKING,
        path=_SECRETS,
        before="        quote_plus(secret),\n",
        after="",
        caught_by=(_QUOTED,),
    ),
    Mutant(
        name="a secret in the path of a URL is not masked",
        rule=_MASKING,
        path=_SECRETS,
        before="        quote(secret),\n",
        after="",
        caught_by=(_QUOTED,),
    ),
    Mutant(
        name="a secret as Python prints it is not masked",
        rule=_MASKING,
        path=_SECRETS,
        before="        repr(secret)[1:-1],\n",
        after="",
        caught_by=(_QUOTED,),
    ),
    Mutant(
        name="a secret as JSON writes it is not masked",
        rule=_MASKING,
        path=_SECRETS,
        before="        json.dumps(secret)[1:-1],\n",
        after="",
        caught_by=(_QUOTED,),
    ),
    Mutant(
        name="of a secret of several lines only the whole is masked",
        rule=_MASKING,
        path=_SECRETS,
        before='    lines = [line.strip() for line in secret.splitlines()] if "\\n" in secret else []\n',
        after="    lines: list[str] = []\n",
        caught_by=("tests/connectors/spec/test_secrets.py::test_of_a_secret_of_several_lines_each_line_is_masked",),
    ),
    Mutant(
        name="a secret that begins with another one shows its end",
        rule=_MASKING,
        path=_SECRETS,
        before="sorted(forms, key=len, reverse=True)",
        after="sorted(forms, key=len)",
        caught_by=("tests/connectors/spec/test_secrets.py::test_the_longer_one_of_two_secrets_is_masked_whole",),
    ),
    Mutant(
        name="a password in a URL shows unless it is known",
        rule=_MASKING,
        path=_SECRETS,
        before="_without_url_passwords(text))\n",
        after="text)\n",
        caught_by=("tests/connectors/spec/test_secrets.py::test_a_url_shows_everything_but_its_password",),
    ),
    Mutant(
        name="what stands behind `password=` shows unless it is known",
        rule=_MASKING,
        path=_SECRETS,
        before='    return _BEHIND_NAME.sub(rf"\\g<1>{MASK}", ',
        after="    return (",
        caught_by=(
            "tests/connectors/spec/test_secrets.py::test_what_stands_behind_the_name_of_a_secret_is_masked_unknown",
        ),
    ),
    Mutant(
        name="a secret shows as far as it goes where a message is cut in it",
        rule=_MASKING,
        path=_SECRETS,
        before="    text = _without_cut_secrets(text, secrets)\n",
        after="",
        caught_by=("tests/project/test_linear_masking.py::test_a_secret_that_a_message_is_cut_in_is_masked",),
    ),
    Mutant(
        name="an error is as long as the record that it quotes",
        rule=_MASKING,
        path="eos/errors.py",
        before="        self.message = shorten(message)\n",
        after="        self.message = message\n",
        caught_by=("tests/project/test_linear_masking.py::test_a_message_is_bounded_wherever_its_error_is_raised",),
    ),
    Mutant(
        name="the page masks the values of JSON and not its names",
        rule=_MASKING,
        path="spark_jobs/page/masked.py",
        before="        return {mask(str(key)): masked(each, mask)",
        after="        return {str(key): masked(each, mask)",
        caught_by=(_JSON_NAMES,),
    ),
    Mutant(
        name="a command masks the values of JSON and not its names",
        rule=_MASKING,
        path="spark_jobs/cli/output.py",
        before="            return {self.mask(key): self._masked(entry)",
        after="            return {key: self._masked(entry)",
        caught_by=(_JSON_NAMES,),
    ),
    Mutant(
        name="the page shows the names of settings as they came from outside",
        rule=_MASKING,
        path="spark_jobs/page/reading.py",
        before="                mask(str(key)): MASK if is_secret_name(str(key))",
        after="                str(key): MASK if is_secret_name(str(key))",
        caught_by=(
            "tests/connectors/spec/test_secrets.py::test_the_page_shows_the_spec_with_every_name_and_value_masked",
        ),
    ),
    Mutant(
        name="what came from a file or the environment is not a secret",
        rule=_MASKING,
        path="connectors/spec/reading.py",
        before="            if is_secret and not is_default:\n",
        after="            if not is_secret and not is_default:\n",
        caught_by=(
            "tests/connectors/spec/test_secrets.py::test_nothing_that_is_printed_of_a_right_spec_shows_a_secret",
        ),
    ),
    Mutant(
        name="a password that is written in a URL of the spec is not a secret",
        rule=_MASKING,
        path="connectors/spec/reading.py",
        before="        self.secrets |= passwords_in(text) | shown(node, passwords_in)\n",
        after="",
        caught_by=(
            "tests/connectors/spec/test_secrets.py::test_nothing_that_is_printed_of_a_right_spec_shows_a_secret",
        ),
    ),
    Mutant(
        name="a setting that is called a password is not a secret",
        rule=_MASKING,
        path="connectors/spec/reading.py",
        before="                if path and (path[-1] in _SETTINGS or path[0] in _ENTRIES) and is_secret_name(key):\n",
        after="                if path and path[-1] in _SETTINGS and is_secret_name(str(entry.value)):\n",
        caught_by=(
            "tests/connectors/spec/test_secrets.py::test_nothing_that_is_printed_of_a_right_spec_shows_a_secret",
        ),
    ),
    Mutant(
        name="the log shows the secrets of a stack trace",
        rule=_MASKING,
        path="spark_jobs/observe/log_lines.py",
        before="mask(_PLAIN.formatException(record.exc_info), self.secrets)",
        after="_PLAIN.formatException(record.exc_info)",
        caught_by=("tests/spark_jobs/observe/test_masked_log.py::test_of_a_job_of_ones_own_with_its_own_logging",),
    ),
    Mutant(
        name="a second spec of the process makes the log forget the secrets of the first",
        rule=_MASKING,
        path="spark_jobs/observe/log_lines.py",
        before="    MASKING.secrets |= secrets\n",
        after="    MASKING.secrets = secrets\n",
        caught_by=(
            "tests/spark_jobs/observe/test_masked_log.py::test_a_second_spec_leaves_the_secrets_of_the_first_masked",
        ),
    ),
    Mutant(
        name="half of a character in a spec is taken for text",
        rule="docs/reference/spec.md, The spec",
        path="connectors/spec/yaml_reader.py",
        before=" if _HALF.search(text) else text\n",
        after=" if False else text\n",
        caught_by=("tests/connectors/spec/test_yaml.py::test_a_spec_that_is_written_as_json_is_read_to_the_letter",),
    ),
)
