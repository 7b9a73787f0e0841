"""The section `notifications`: what a spec may say, and that its URLs and headers are secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spec import Spec, SpecMistakesError, exposures, load_spec

SPEC = """\
pipeline: p
checkpoint: {location: state}
sources:
  - {name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}
sinks:
  - {name: out, from: s, connector: sqlite, path: out.db, table: t, commit: write-ahead-log}
notifications:
  - %s
"""
URL = "https://hooks.slack.com/services/T1/B2/verysecret"


def _load(folder: Path, *entries: str, environ: dict[str, str] | None = None) -> Spec:
    path = folder / "spec.yaml"
    path.write_text(SPEC % "\n  - ".join(entries))
    return load_spec(path, environ or {})


def test_all_events_but_lag_unless_it_says_otherwise(tmp_path: Path) -> None:
    (found,) = _load(tmp_path, f"{{name: chat, url: {URL}}}").notifications
    assert [found.wants(each) for each in ("failure", "dead-letters", "lag", "schema-change")] == [
        True,
        True,
        False,
        True,
    ]
    assert (found.template, found.repeat_after_s, found.lag_for_s) == ("json", 900.0, 300.0)
    assert found.url.reveal() == URL


@pytest.mark.parametrize("written", [URL, "${env:HOOK}"])
def test_the_url_its_path_and_each_header_are_secrets(tmp_path: Path, written: str) -> None:
    environ = {"HOOK": URL}
    spec = _load(tmp_path, f"{{name: chat, url: '{written}', headers: {{X-Key: abcdefg}}}}", environ=environ)
    for text in (repr(spec), spec.text, spec.mask(f"POST {URL}"), spec.mask("POST /services/T1/B2/verysecret")):
        assert "verysecret" not in text
    assert "abcdefg" not in spec.text + repr(spec)
    assert str(spec.notifications[0].url) == "https://hooks.slack.com/***"


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("{url: 'https://h/x'}", "missing key 'name'"),
        ("{name: c}", "missing key 'url'"),
        ("{name: c, url: 'ftp://h/verysecret'}", "url: the URL is not one of a web server"),
        ("{name: c, url: 'https:///verysecret'}", "url: the URL is not one of a web server"),
        ("{name: c, url: 'https://u:verysecret@h/x'}", "url: the URL has a user name or password"),
        ("{name: c, url: 'https://h:port/verysecret'}", "url: the URL has no valid host and port"),
        ('{name: c, url: "https://h/very secret"}', "url: the URL has a blank"),
        ("{name: c, url: 7}", "url: 7 .a number. is not a URL"),
        ("{name: c, url: 'https://h/x', events: [lag]}", "lag_above: the event 'lag' needs a number of records"),
        (
            "{name: c, url: 'https://h/x', events: [fire]}",
            "events.0.: wrong value: 'fire'; did you mean 'failure'. allowed: failure, dead-letter",
        ),
        ("{name: c, url: 'https://h/x', events: []}", "events: .* too short"),
        ("{name: c, url: 'https://h/x', template: mail}", "to: the template 'mail' needs an address"),
        ("{name: c, url: 'https://h/x', to: [a@b]}", "template: addresses are of the template 'mail'"),
        ("{name: c, url: 'https://h/x', headers: {Host: b}}", "headers.Host: the header 'Host' is set by eos"),
        ("{name: c, url: 'https://h/x', headers: {\"X Y\": b}}", "'X Y' cannot be a header"),
    ],
)
def test_a_wrong_entry_is_named_and_its_url_is_not_shown(tmp_path: Path, entry: str, mistake: str) -> None:
    with pytest.raises(SpecMistakesError, match=mistake) as failure:
        _load(tmp_path, entry)
    assert "verysecret" not in str(failure.value)


def test_names_are_unique(tmp_path: Path) -> None:
    with pytest.raises(SpecMistakesError, match="the notification 'chat' is named twice"):
        _load(tmp_path, f"{{name: chat, url: {URL}}}", f"{{name: chat, url: {URL}}}")


def test_a_url_without_tls_is_an_exposure(tmp_path: Path) -> None:
    spec = _load(
        tmp_path, "{name: a, url: 'http://h/x'}", "{name: b, url: 'http://127.0.0.1/x'}", f"{{name: c, url: {URL}}}"
    )
    assert [each.of for each in exposures(spec) if each.of.startswith("notification")] == ["notification a"]
