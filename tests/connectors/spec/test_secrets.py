"""No secret in a message, a repr, a plan or a trace, however it came in and however it is quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.api.masking import MASK, is_secret_name
from connectors.spec import Url, guarantees, load_spec, mask
from eos.errors import SpecError
from spark_jobs.cli.output import Output
from spark_jobs.page.masked import masking
from spark_jobs.page.reading import effective

PASSWORD = "s3cr'et-horse"
FILED = "filed-token-77"
WRITTEN = "written-in-the-spec"
TEXT = """\
pipeline: p
checkpoint: {location: state, head: "postgresql://writer:%(written)s@h/d"}
sources:
  - name: s
    connector: kafka
    bootstrap_servers: a
    topics: [t]
    format: {type: raw}
    properties: {sasl.password: "plain-sasl-pass", sasl.username: "${file:token}"}
transforms:
  - {name: b, sql: 'SELECT "${PASSWORD}" FROM s'}
sinks:
  - {name: out, from: b, connector: mysql, url: "mysql+pymysql://u:${env:PASSWORD}@h/d", table: t, commit: two-phase}
"""
SECRETS = (PASSWORD, FILED, WRITTEN, "plain-sasl-pass")


def write(folder: Path, text: str) -> Path:
    (folder / "token").write_text(FILED + "\n")
    path = folder / "spec.yaml"
    path.write_text(text % {"written": WRITTEN} if "%(" in text else text)
    return path


def assert_clean(text: str) -> None:
    shown = [secret for secret in SECRETS if secret in text or repr(secret)[1:-1] in text]
    assert not shown, text


def test_nothing_that_is_printed_of_a_right_spec_shows_a_secret(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, TEXT), {"PASSWORD": PASSWORD})
    assert set(SECRETS) <= spec.secrets
    for part in (spec, *spec.sources, *spec.transforms, *spec.sinks, spec.checkpoint, spec.spark):
        assert_clean(repr(part))
        assert_clean(str(part))
        assert_clean(f"{part}")
    assert "mysql+pymysql://u:***@h/d" in repr(spec.sinks[0])
    assert_clean(repr(guarantees(spec)))


def test_an_address_is_shown_wherever_it_comes_from(tmp_path: Path) -> None:
    text = TEXT.replace("bootstrap_servers: a", 'bootstrap_servers: "${BROKER}"')
    spec = load_spec(write(tmp_path, text), {"PASSWORD": PASSWORD, "BROKER": "broker-7:9092"})
    assert spec.mask(f"broker-7:9092 refuses {PASSWORD}") == "broker-7:9092 refuses ***"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("table: t", 'table: ["${PASSWORD}"]'),
        ("topics: [t]", 'topics: ["${PASSWORD}"]'),
        ("topics: [t]", 'topics: ["${PASSWORD}", "${PASSWORD}"]'),
        ("name: out", 'name: "${PASSWORD}"\n    nam: x'),
        ("from: b", 'from: "${PASSWORD}"'),
        ("commit: two-phase", 'commit: "${PASSWORD}"'),
        ("connector: kafka", 'connector: "${PASSWORD}"'),
        ("mysql+pymysql://u", "mysql://u"),
        ("mysql+pymysql://u:${env:PASSWORD}@h/d", "${env:PASSWORD}"),
        ("@h/d", " @h/d"),
        ("@h/d", "@x@h/d"),
        ("location: state", 'location: state, interval: "${PASSWORD}"'),
        ("location: state", 'location: state, retained: "${PASSWORD}"'),
        ("location: state", 'location: state, mode: "${PASSWORD}"'),
        ("location: state", 'location: "s3://${PASSWORD}"'),
        ("{type: raw}", '{type: json, schema: "${PASSWORD}"}'),
        ("{type: raw}", '{type: "${PASSWORD}"}'),
        ("pipeline: p", 'pipeline: ["${PASSWORD}"]'),
        ("sasl.username:", "group.id:"),
        ("pipeline: p", "pipelin: p"),
    ],
)
def test_no_mistake_shows_a_secret(tmp_path: Path, old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path, TEXT.replace(old, new, 1) % {"written": WRITTEN}), {"PASSWORD": PASSWORD})
    assert_clean(str(caught.value))
    assert_clean(repr(caught.value))
    assert_clean(repr(getattr(caught.value, "mistakes", "")))


def test_no_part_of_a_secret_is_quoted_either(tmp_path: Path) -> None:
    """Parsers of schemas and durations quote the word that they stumbled over."""
    text = TEXT.replace("{type: raw}", '{type: json, schema: "${S}"}').replace("state", 'state, interval: "${D}"')
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path, text), {"PASSWORD": PASSWORD, "S": "abcdef ghijkl-mnopqr", "D": "12zyxwvu"})
    said = str(caught.value)
    assert not [word for word in ("abcdef", "ghijkl", "mnopqr", "zyxwvu") if word in said], said
    assert "what '${D}' stands for does not fit here; allowed: a number and a unit" in said


def test_a_long_value_is_masked_before_it_is_cut(tmp_path: Path) -> None:
    text = TEXT.replace("pipeline: p", f"pipeline: [\"x\"]\npipelines: y\nversion: '{'y' * 290}${{PASSWORD}}'")
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path, text), {"PASSWORD": PASSWORD})
    assert "s3cr" not in str(caught.value)


def test_a_variable_ends_before_its_newline(tmp_path: Path) -> None:
    """`kubectl create secret --from-file` keeps the file's own."""
    spec = load_spec(write(tmp_path, TEXT), {"PASSWORD": f"{PASSWORD}\n"})
    assert PASSWORD in spec.sinks[0].url.reveal()  # type: ignore[attr-defined]
    assert "\n" not in spec.sinks[0].url.reveal()  # type: ignore[attr-defined]


def test_an_unset_variable_does_not_show_its_neighbours(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path, TEXT), {"PASSWORT": PASSWORD})
    assert "did you mean '${env:PASSWORT}'?" in str(caught.value)
    assert_clean(str(caught.value))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql+pymysql://user:pw@host/db", "mysql+pymysql://user:***@host/db"),
        ("mysql+pymysql://user:p@w/x@host:3306/db", "mysql+pymysql://user:***@host:3306/db"),
        ("mysql+pymysql://user@host/db", "mysql+pymysql://user@host/db"),
        ("mysql+pymysql://:pw@host/db", "mysql+pymysql://:***@host/db"),
        ("mysql+pymysql://host/db?password=pw&x=1", "mysql+pymysql://host/db?password=***&x=1"),
        ("mysql+pymysql://host:3306/db", "mysql+pymysql://host:3306/db"),
    ],
)
def test_a_url_shows_everything_but_its_password(url: str, shown: str) -> None:
    assert (str(Url(url)), repr(Url(url)), Url(url).reveal()) == (shown, f"Url({shown!r})", url)


@pytest.mark.parametrize("option", ["password", "passwd", "sslpassword", "ssl_key_password"])
@pytest.mark.parametrize(("written", "meant"), [("abc,defghi'jkl", "abc,defghi'jkl"), ("abc;d%2Fe+f", "abc;d/e f")])
def test_a_password_in_the_query_of_a_url_is_masked_whole(
    option: str, written: str, meant: str, tmp_path: Path
) -> None:
    url = f"mysql+pymysql://u@h/d?{option}={written}&charset=utf8mb4"
    text = TEXT.replace("mysql+pymysql://u:${env:PASSWORD}@h/d", url.replace("%", "%%"))
    spec = load_spec(write(tmp_path, text), {"PASSWORD": "p"})
    shown = f"mysql+pymysql://u@h/d?{option}=***&charset=utf8mb4"
    assert url not in spec.text
    assert shown in spec.text
    assert str(Url(url)) == shown
    assert spec.mask(f"denied: {written}, {meant}") == "denied: ***, ***"


_KEY: Final = "-----BEGIN PRIVATE KEY-----\nhunter2AAAA\nhunter2BBBB\n-----END PRIVATE KEY-----\n"

_SHOWN: Final = {
    "a folded token": ("ssl.keystore.password: >-\n        Basic\n        hunter2SECRETTOKEN\n", {}),
    "a literal block": ("ssl.keystore.password: |  # of the store\n        hunter2\n        hunter22\n", {}),
    "a folded key": ("ssl.key.pem: >-\n" + "".join(f"        {line}\n\n" for line in _KEY.splitlines()), {}),
    "a plain value of two lines": ("sasl.password: hunter2\n        hunter22\n", {}),
    "a broken line": ('sasl.password: "xy\\\n        hunter2"\n', {}),
    "an escape": ('sasl.password: "hunter2\\x21hunter2"\n', {}),
    "an anchor and a tag": ("sasl.password: &key !!str 'hunter2\n        hunter22'\n", {}),
    "beside a reference": ('sasl.password: "hunter2${X}"\n', {"X": "behind"}),
    "between references": ('sasl.password: "${X}hunter2${X} hunter22"\n', {"X": "behind"}),
    "behind a login's scheme": ('header.Authorization: "Bearer hunter2${X}"\n', {"X": "behind"}),
}


@pytest.mark.parametrize(("written", "environ"), _SHOWN.values(), ids=_SHOWN)
@pytest.mark.parametrize("profile", ["", "profiles: {dev: {}, prod: {}}\n"])
def test_the_file_shows_no_secret_however_it_is_written(
    written: str, environ: dict[str, str], profile: str, tmp_path: Path
) -> None:
    properties = 'properties: {sasl.password: "plain-sasl-pass", sasl.username: "${file:token}"}'
    text = TEXT.replace(properties, f"properties:\n      {written}") + profile
    spec = load_spec(write(tmp_path, text), {"PASSWORD": PASSWORD, **environ})
    assert "hunter2" not in spec.text
    assert "topics: [t]" in spec.text
    assert spec.text.count("${X}") == written.count("${X}")


def test_the_file_shows_no_secret_of_a_profile_that_is_not_chosen(tmp_path: Path) -> None:
    key = "location_options: {secret_access_key: 'hunter2\n  hunter22', session_token: 'hunter2${X}'}"
    hook = "notifications: [{name: n, url: 'https://h/hunter2${X}'}]"
    profiles = f"profiles:\n  prod:\n    {hook}\n    checkpoint:\n      {key}\n"
    shown = load_spec(write(tmp_path, TEXT + profiles), {"PASSWORD": PASSWORD}).text
    assert "hunter2" not in shown
    assert "https://h***${X}" in shown


def test_the_word_before_a_token_is_not_masked_in_other_texts(tmp_path: Path) -> None:
    token = 'properties: {header.Authorization: "Bearer ${X}"}'
    text = re.sub("properties: .*", lambda _: token, TEXT)
    spec = load_spec(write(tmp_path, text), {"PASSWORD": PASSWORD, "X": "long-token"})
    assert spec.mask("Bearer without long-token") == "Bearer without ***"
    assert 'Authorization: "Bearer ${X}"' in spec.text


@pytest.mark.parametrize("url", ["mysql+pymysql:/eos:S3cretPw99@127.0.0.1:1/x", "mysql:/h/d?password=S3cretPw99,x"])
def test_a_mistyped_url_is_not_quoted(url: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the value is not a database URL; allowed: mysql") as caught:
        load_spec(write(tmp_path, TEXT.replace("mysql+pymysql://u:${env:PASSWORD}@h/d", url)), {"PASSWORD": "p"})
    assert "S3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("spark.hadoop.fs.gs.auth.service.account.private.key", True),
        ("spark.hadoop.fs.gs.auth.service.account.private.key.id", False),
        ("privateKey", True),
        ("ssl.private.key.location", False),
        ("private_key_file", False),
        ("spark.sql.catalog.lake.header.Authorization", True),
        ("Proxy-Authorization", True),
        ("spark.hadoop.hadoop.security.authorization", False),
        ("schema.registry.basic.auth.user.info", True),
        ("basic.auth.username", False),
        ("eventhubs.connectionString", True),
        ("azure.storage.key", True),
        ("apiKey", True),
        ("X-Api-Key", True),
        ("ssl.key.location", False),
        ("ssl.key.pem", True),
        ("key.deserializer", False),
        ("spark.sql.catalog.lake.uri", False),
    ],
)
def test_names_of_settings_that_hold_a_secret(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


def test_short_secrets_are_masked_where_they_stand_and_not_in_every_word() -> None:
    assert mask("eos at mysql+pymysql://eos:eos@h/d", frozenset({"eos"})) == "eos at mysql+pymysql://eos:***@h/d"


# How a message may quote a secret: as Python's `repr` does, in JSON's two ways, in the ways of a URL, SQL and HTML.
_QUOTED: Final[dict[str, Callable[[str], str]]] = {
    "as it is": str,
    "Python": lambda secret: repr(secret)[1:-1],
    "JSON": lambda secret: json.dumps(secret)[1:-1],
    "JSON with all letters": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "a part of a URL": lambda secret: quote(secret, safe=""),
    "a path of a URL": quote,
    "a form": quote_plus,
    "a URL with small hex digits": lambda secret: re.sub("%..", lambda hex_: hex_[0].lower(), quote(secret, safe="")),
    "SQL": lambda secret: secret.replace("'", "''"),
    "an attribute of HTML": escape,
    "HTML": lambda secret: escape(secret, quote=False),
}


@pytest.mark.parametrize("quoted", _QUOTED.values(), ids=_QUOTED)
@given(secret=st.text(st.characters(codec="utf-8", exclude_characters="¦"), min_size=4, max_size=30))
@example(secret="p@ss/w:rd ü")
@example(secret='it\'s "quoted" \\ here')
def test_a_secret_is_masked_however_it_is_quoted(quoted: Callable[[str], str], secret: str) -> None:
    shown = quoted(secret)
    assert mask(f"¦{shown}¦ twice ¦{shown}¦", frozenset({secret})) == f"¦{MASK}¦ twice ¦{MASK}¦"


def test_each_form_of_a_secret_is_another_text() -> None:
    """Else the test above would show nothing for some of them."""
    secret = 'p@ss/w:rd ü it\'s "quoted" & \\ here'
    assert len({quoted(secret) for quoted in _QUOTED.values()}) == len(_QUOTED)


def test_of_a_secret_of_several_lines_each_line_is_masked() -> None:
    """A key in PEM: a library tells the line that it cannot read."""
    key = "-----BEGIN KEY-----\n  MIIEvQIBADANBg\nAb\n-----END KEY-----\n"
    said = mask("cannot read 'MIIEvQIBADANBg' behind -----BEGIN KEY-----: Ab", frozenset({key}))
    assert said == f"cannot read '{MASK}' behind {MASK}: Ab"


def test_the_longer_one_of_two_secrets_is_masked_whole() -> None:
    assert mask("horse-battery horse", frozenset({"horse", "horse-battery"})) == f"{MASK} {MASK}"


@pytest.mark.parametrize("name", ["password", "PWD", "secret", "sasl_token"])
def test_what_stands_behind_the_name_of_a_secret_is_masked_unknown(name: str) -> None:
    assert mask(f"h:1/d?{name}=pw&x=1", frozenset()) == f"h:1/d?{name}={MASK}&x=1"


def test_names_in_json_are_masked_as_values_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of sources, sinks and splits are keys there, and any of them may come from the environment."""
    facts = {PASSWORD: [{f"{PASSWORD}/0": PASSWORD}]}
    clean = {MASK: [{f"{MASK}/0": MASK}]}
    command = Output()
    monkeypatch.setattr(command, "_secrets", frozenset({PASSWORD}))
    command.facts(facts)
    assert json.loads(capsys.readouterr().out) == clean
    page = masking(lambda text: mask(text, frozenset({PASSWORD})))
    assert json.loads(bytes(page(facts).body)) == clean


def test_the_page_shows_the_spec_with_every_name_and_value_masked(tmp_path: Path) -> None:
    text = TEXT.replace("sasl.username:", f"'{FILED}': x, sasl.username:")
    spec = load_spec(write(tmp_path, text), {"PASSWORD": PASSWORD})
    shown = effective(spec)
    assert_clean(shown)
    assert f"'{MASK}': '{MASK}'" in shown
    assert f"sasl.username: '{MASK}'" in shown
