"""The time for masking and judging a message grows with its length, whatever it holds: it may quote a record.

Where it grew with the square of the length, one record of a megabyte held the driver for hours.
"""

from __future__ import annotations

import io
import json
import logging
import re
import time
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.api.masking import MASK, passwords_in
from connectors.formats.ddl import parse_ddl
from connectors.formats.json_loss import check_names
from connectors.formats.json_values import JsonFormat
from connectors.kafka import handshake
from connectors.spec import mask
from eos.bounded import MOST_CHARS, shorten
from eos.errors import PrepareError, SpecError
from spark_jobs.observe.log_lines import Masking
from spark_jobs.session.failures import translate

_SHORT, _LONG = 64 * 1024, 512 * 1024
_MOST_RATIO: Final = 24.0  # the lengths' is 8, the squares' 64
_QUICK_S: Final = 0.25  # of the long text: too short to compare
_MOST_SHORT_S: Final = 2.0

_REPEATED: Final = {
    "letters": "a",
    "digits": "1",
    "words": "word ",
    "schemes": "a://",
    "schemes with a user": "x://a:",
    "urls with a password": "x://a:b@",
    "urls of one line each": "x://a:b@h\n",
    "at": "@",
    "colons": ":",
    "names of secrets": "password=",
    "names of secrets with values": "password=x&",
    "quotes": "'\"",
    "percent signs": "%41",
    "unicode": "ü\u2028日😀",
    "dots": "a.",
    "names of errors": "Fault",
    "names of errors by line": "aError\n",
    "a secret's beginning": "s3cr",
    "cut secrets": "s3cr…",
    "columns": "Column(",
    "changed columns": "Column(a) changed from ",
    "brackets": "]",
    "rows": " in row 1",
}
SECRETS: Final = frozenset({"s3cr'et-horse", "another secret"})


def _masked(text: str) -> object:
    return mask(text, SECRETS)


def _translated(text: str) -> object:
    return translate(RuntimeError(text + "!"), "checkpoint 7")


def _logged(text: str) -> object:
    handler = Masking()
    handler.secrets = SECRETS
    record = logging.LogRecord("eos.test", logging.DEBUG, "", 0, "%s", (text,), None)
    handler.emit(record)
    return record.getMessage()


def _raised_and_logged(text: str) -> object:
    handler = Masking()
    handler.secrets = SECRETS
    try:
        raise RuntimeError(text)
    except RuntimeError as error:
        record = logging.LogRecord("eos.test", logging.DEBUG, "", 0, "", (), (RuntimeError, error, None))
        handler.emit(record)
    return logging.StreamHandler(io.StringIO()).format(record)


_FORMAT: Final = JsonFormat(parse_ddl("d DECIMAL(9, 2), day DATE, at TIMESTAMP, n INT"))


def _decoded_as(name: str) -> Callable[[str], object]:
    def decode(text: str) -> object:
        return _FORMAT.decode(pa.array([json.dumps({name: text}).encode()])).bad[0].reason

    return decode


_WORK: Final[dict[str, Callable[[str], object]]] = {
    "mask": _masked,
    "passwords_in": passwords_in,
    "translate": _translated,
    "log": _logged,
    "log of an error": _raised_and_logged,
    "a broker's address": lambda text: handshake._ADDRESS.search(text),
    "a DECIMAL": _decoded_as("d"),
    "a DATE": _decoded_as("day"),
    "a TIMESTAMP": _decoded_as("at"),
    "an INT": _decoded_as("n"),
}


def _seconds(work: Callable[[str], object], text: str) -> float:
    """Of the processor: the machine may be busy with something else."""
    start_s = time.process_time()
    work(text)
    return time.process_time() - start_s


@pytest.mark.parametrize("work", _WORK.values(), ids=_WORK)
@pytest.mark.parametrize("repeated", _REPEATED.values(), ids=_REPEATED)
def test_the_time_grows_with_the_length(work: Callable[[str], object], repeated: str) -> None:
    short, long = (repeated * (length // len(repeated)) for length in (_SHORT, _LONG))
    work(short)
    short_s = min(_seconds(work, short) for _ in range(2))
    assert short_s < _MOST_SHORT_S
    long_s = min(_seconds(work, long) for _ in range(2))
    assert long_s < _QUICK_S or long_s < _MOST_RATIO * short_s, (short_s, long_s)


def test_an_object_of_many_names_is_checked_in_time_that_grows_with_it() -> None:
    def twice_the_last(names: int) -> None:
        text = "{" + ",".join(f'"n{at}":0' for at in range(names)) + f',"n{names - 1}":1}}'
        with pytest.raises(pa.ArrowInvalid, match=f"an object names 'n{names - 1}' twice"):
            check_names(pa.array([text]))

    start_s = time.process_time()
    twice_the_last(64_000)
    assert time.process_time() - start_s < 3


def test_a_message_is_bounded_wherever_its_error_is_raised() -> None:
    """And with it whatever shows, stores or masks it: nothing is told of an error but what it holds."""
    error = PrepareError("x" * 10**6, remedy="y" * 10**6)
    assert (error.message, error.remedy) == ("x" * MOST_CHARS + "…", "y" * MOST_CHARS + "…")
    assert len(str(error)) < 2 * MOST_CHARS + 20
    assert PrepareError("x" * MOST_CHARS).message == "x" * MOST_CHARS
    assert len(translate(RuntimeError("z" * 10**6), "checkpoint 7").message) == MOST_CHARS + 1
    assert len(SpecError(shorten("x" * 10**6)).message) == MOST_CHARS + 1


def test_an_entry_of_the_log_is_bounded_and_keeps_the_end_of_a_stack_trace() -> None:
    assert len(str(_logged("x" * 10**6))) < 70_000
    handler = Masking()
    handler.secrets = SECRETS
    try:
        try:
            raise RuntimeError("x" * 10**6 + "s3cr'et-horse")
        except RuntimeError as cause:
            raise KeyError("the last one") from cause
    except KeyError as error:
        record = logging.LogRecord("eos.test", logging.DEBUG, "", 0, "", (), (KeyError, error, None))
        handler.emit(record)
    shown = str(record.exc_text)
    assert len(shown) < 70_000
    assert "RuntimeError: xxx" in shown
    assert shown.endswith("KeyError: 'the last one'")
    assert "characters are left out" in shown


_BY_ONE_EXPRESSION: Final = re.compile(r"([A-Za-z][\w+.-]*://[^\s/@:'\"]*):\S*@")
"""As it was said before, in time that grew with the square."""


@given(st.text(st.sampled_from("aZ1+.-_:/@'\" \n\u2003é"), max_size=60))
@example("1://x:http://u:p@h")
@example("http://u:p@h http://v:q@@g:x@ y://z:@")
@example("ab+c://a:x:y@ä")
@example("é1a://:@")
def test_passwords_in_urls_are_masked_as_one_expression_would(text: str) -> None:
    assert mask(text, frozenset()) == _BY_ONE_EXPRESSION.sub(rf"\1:{MASK}@", text)


@given(st.text(st.sampled_from("aE.Fultroxcpin: \n"), max_size=40), st.sampled_from(["Error", "Exception", "Fault"]))
@example("a.b", "Error")
@example("a.Faults: x", "Error")
@example("a.Fault.x: x", "Error")
@example("Fault: ", "Error")
def test_a_python_error_is_found_as_one_expression_would(text: str, name: str) -> None:
    expression = r"^(?P<error>[A-Za-z_][\w.]*(?:Error|Exception|Fault\w*)\b(?:: [^\n]*)?)$"
    for said in (text, text.replace("x", name), name + text, text + name):
        found = re.findall(expression, said, re.MULTILINE)
        first = next((line.strip() for line in said.splitlines() if line.strip()), repr(RuntimeError(said)))
        assert translate(RuntimeError(said), "it").message == f"it failed: {found[-1] if found else first}"


def test_a_secret_that_a_message_is_cut_in_is_masked() -> None:
    """A message is bounded where an error is raised, and there nobody knows what is secret."""
    secret = "s3cr'et-horse"
    for end in range(4, len(secret)):
        assert mask(f"at {secret[:end]}…; and", frozenset({secret})) == f"at {MASK}…; and"
    said = PrepareError("x" * (MOST_CHARS - 8) + secret).message
    assert mask(said, frozenset({secret})) == "x" * (MOST_CHARS - 8) + f"{MASK}…"
    assert mask(f"{secret}… horse…", frozenset({secret})) == f"{MASK}… horse…"
