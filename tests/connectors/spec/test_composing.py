"""A spec of several parts: files that it includes, and profiles for several environments."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import Final

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from connectors.spec import Mistake, Spec, SpecMistakesError, load_spec
from connectors.spec.composing import PROFILE, compose
from connectors.spec.spec import json_schema
from connectors.spec.yaml_reader import read_yaml
from spark_jobs.cli import run_command_line
from tests.connectors.spec.entries import kafka_source, server_sink

COMMON: Final = """\
checkpoint: {location: /var/eos/orders, interval: 2s}
sources:
  - name: orders
    connector: kafka
    bootstrap_servers: ${KAFKA:-localhost:9092}
    topics: [orders]
    format: {type: string}
    properties: {client.rack: a, sasl.password: base-secret}
"""
SPEC: Final = """\
include: common.yaml
pipeline: orders
sinks:
  - {name: out, from: orders, connector: mysql, url: "mysql+pymysql://u:dev-secret@h/d", table: t, commit: two-phase}
profiles:
  dev: {}
  prod:
    checkpoint:
      interval: 10s
    sources:
      - name: orders
        bootstrap_servers: broker.example.com:9092
        properties: {client.rack: b, sasl.password: prod-secret}
    sinks:
      - {name: out, url: "mysql+pymysql://u:url-secret@db/shop"}
      - {name: screen, from: orders, connector: print}
"""


def load(folder: Path, profile: str = "", spec: str = SPEC, common: str = COMMON) -> Spec:
    (folder / "common.yaml").write_text(common)
    (folder / "spec.yaml").write_text(spec)
    return load_spec(folder / "spec.yaml", {PROFILE: profile} if profile else {})


def mistakes(folder: Path, profile: str = "", spec: str = SPEC, common: str = COMMON) -> list[Mistake]:
    with pytest.raises(SpecMistakesError) as caught:
        load(folder, profile, spec, common)
    return list(caught.value.mistakes)


def test_a_file_is_included(tmp_path: Path) -> None:
    spec = load(tmp_path)
    assert (spec.checkpoint.folder, spec.checkpoint.interval_s) == (Path("/var/eos/orders"), 2.0)
    assert kafka_source(spec).bootstrap_servers == "localhost:9092"
    assert [sink.name for sink in spec.sinks] == ["out"]
    assert spec.included == (tmp_path / "common.yaml",)


def test_a_profile_changes_keys_and_adds_entries(tmp_path: Path) -> None:
    spec = load(tmp_path, "prod")
    assert (spec.checkpoint.folder, spec.checkpoint.interval_s) == (Path("/var/eos/orders"), 10.0)
    source = kafka_source(spec)
    assert (source.bootstrap_servers, source.topics) == ("broker.example.com:9092", ["orders"])
    assert source.properties == {"client.rack": "b", "sasl.password": "prod-secret"}
    assert [sink.name for sink in spec.sinks] == ["out", "screen"]
    assert server_sink(spec).url.reveal() == "mysql+pymysql://u:url-secret@db/shop"
    assert server_sink(spec).table == "t"
    assert load(tmp_path, "dev").checkpoint == load(tmp_path).checkpoint


def test_the_spec_takes_precedence_over_what_it_includes_and_later_files_over_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("checkpoint: {interval: 3s, retained: 3}\n")
    spec = SPEC.replace("include: common.yaml", "include: [common.yaml, more.yaml]\ncheckpoint: {retained: 5}")
    found = load(tmp_path, "", spec).checkpoint
    assert (found.interval_s, found.retained, found.location) == (3.0, 5, Path("/var/eos/orders"))


@pytest.mark.parametrize("profile", ["", "dev", "prod"])
def test_no_secret_of_any_part_is_shown(profile: str, tmp_path: Path) -> None:
    spec = load(tmp_path, profile)
    for secret in ("dev-secret", "prod-secret", "url-secret"):
        assert secret not in spec.text
        assert secret not in spec.mask(f"x {secret} x")
    assert "base-secret" not in repr(spec)


_HOOKS: Final = """\
notifications:
  - {name: chat, url: "https://hooks.example.com/base-hook", headers: {X-Key: base-header}}
profiles:
  dev: {}
  prod:
    notifications:
      - {name: chat, url: "https://hooks.example.com/prod-hook", headers: {X-Key: prod-header}}
"""


@pytest.mark.parametrize("profile", ["", "dev", "prod"])
def test_no_webhook_or_header_of_any_profile_is_shown(profile: str, tmp_path: Path) -> None:
    spec = load(tmp_path, profile, SPEC.partition("profiles:")[0] + _HOOKS)
    for secret in ("base-hook", "base-header", "prod-hook", "prod-header"):
        assert secret not in spec.text
    assert spec.mask("/base-hook base-header /prod-hook prod-header") == "*** *** *** ***"


def _bomb(first: str, kind: str) -> str:
    """Return keys whose last one has ten thousand million values."""
    lines = []
    for level in range(10):
        below = f"*{first}{level - 1}" if level else "a"
        uses = (
            f"[{', '.join([below] * 10)}]"
            if kind == "list"
            else f"{{{', '.join(f'k{n}: {below}' for n in range(10))}}}"
        )
        lines.append(f"{first}{level}: &{first}{level} {uses}")
    return "".join(f"      {line}\n" for line in lines)


@pytest.mark.parametrize("profile", ["", "prod"])
@pytest.mark.parametrize("kind", ["list", "mapping"])
def test_aliases_of_each_profile_count(profile: str, kind: str, tmp_path: Path) -> None:
    spec = f"{SPEC}    spark:\n{_bomb('x', kind)}"
    start_s = time.process_time()
    (found,) = mistakes(tmp_path, profile, spec)
    assert "more than 10000 values" in found.found
    assert time.process_time() - start_s < 5


def test_merged_aliases_count(tmp_path: Path) -> None:
    """A profile and its base with the same keys are merged before a value of them is read."""
    base = f"spark:\n{_bomb('x', 'mapping')}"
    start_s = time.process_time()
    found = mistakes(tmp_path, "prod", f"{SPEC}    spark:\n{_bomb('x', 'mapping')}", COMMON + base)
    assert "more than 10000 values" in found[0].found
    assert time.process_time() - start_s < 5


def test_a_long_text_that_aliases_repeat_counts(tmp_path: Path) -> None:
    spec = f"{SPEC}    spark: {{conf: [&a {'a' * 500_000}{', *a' * 9_000}]}}\n"
    start_s = time.process_time()
    (found,) = mistakes(tmp_path, "", spec)
    assert "4194304 characters" in found.found
    assert time.process_time() - start_s < 5


def test_a_pipe_is_not_included(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (found,) = {
        each.found for each in mistakes(tmp_path, "", SPEC.replace("common.yaml", "pipe")) if each.path == "include"
    }
    assert found == "pipe is not a file"


def test_a_file_is_included_once(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, "", SPEC.replace("common.yaml", "[common.yaml, ./common.yaml]"))
    assert found.found == "common.yaml is included twice"


def test_the_files_of_a_spec_have_one_bound(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(f"# {'x' * 600_000}\ncheckpoint: {{retained: 3}}\n")
    found = mistakes(tmp_path, "", SPEC.replace("common.yaml", "[common.yaml, a.yaml, b.yaml]"))
    assert found[0].found == "with a.yaml, the spec and its included files are larger than 1048576 bytes"


def test_a_key_of_any_length_makes_a_short_message(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "", SPEC, f"{COMMON}? {'k' * 100_000}\n: 1\n")
    assert "a key is longer than 1024 characters" in {each.found for each in found}
    assert all(len(each.describe("spec.yaml")) < 2_000 for each in found)


def test_a_mistake_names_the_file_and_line_that_it_is_in(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path, "prod", SPEC.replace("10s", "10"), COMMON.replace("    topics:", "    group: a\n    topics:")
    )
    assert [(each.describe("spec.yaml").partition(": ")[0], each.path) for each in found] == [
        ("spec.yaml:9", "checkpoint.interval"),
        ("common.yaml:6", "sources[0].group"),
    ]
    assert pickle.loads(pickle.dumps(found)) == found
    assert pickle.loads(pickle.dumps(found))[1].describe("").startswith("common.yaml:6: ")


@pytest.mark.parametrize(("written", "meant"), [("includes: common.yaml", "include"), ("profile: {}", "profiles")])
def test_a_mistyped_key_of_several_parts(written: str, meant: str, tmp_path: Path) -> None:
    found = mistakes(tmp_path, "", f"{SPEC.partition('profiles:')[0]}{written}\n")
    (mistake,) = [each for each in found if "unknown key" in each.found]
    assert mistake.suggestion == meant
    assert {"include", "profiles", "pipeline"} <= set(mistake.allowed)


def test_a_profile_has_no_profiles(tmp_path: Path) -> None:
    (mistake,) = mistakes(tmp_path, "dev", SPEC.replace("dev: {}", "dev: {profiles: {}}"))
    assert (mistake.found, mistake.suggestion) == ("unknown key 'profiles'", "")


@pytest.mark.parametrize(
    ("spec", "common", "profile", "said"),
    [
        (
            SPEC,
            COMMON,
            "prd",
            "spec.yaml:6: profiles: unknown profile 'prd'; did you mean 'prod'? allowed: dev, prod",
        ),
        (
            SPEC.partition("profiles:")[0],
            COMMON,
            "prod",
            "the profile 'prod' is chosen (`--profile` or EOS_PROFILE), and",
        ),
        (SPEC.replace("common.yaml", "comon.yaml"), COMMON, "", "include: comon.yaml cannot be read: No such file"),
        (SPEC, "include: spec.yaml\n", "", "common.yaml:1: include: an included file includes no other file"),
        (SPEC, "- a\n", "", "common.yaml:1: an included file is a mapping with keys of a spec"),
        (SPEC, "a: [\n", "", "common.yaml:2: not YAML"),
        (SPEC, "", "", "common.yaml:1: the file is empty"),
        (SPEC.replace("include: common.yaml", "include: {a: b}"), COMMON, "", "include: wrong value; allowed: a path"),
        (SPEC.replace("dev: {}", "dev: 1"), COMMON, "", "profiles.dev: wrong type; allowed: a mapping"),
        (SPEC.partition("profiles:")[0] + "profiles: 1\n", COMMON, "", "profiles: wrong type; allowed: a mapping from"),
    ],
)
def test_a_wrong_part_is_a_mistake(spec: str, common: str, profile: str, said: str, tmp_path: Path) -> None:
    found = [each.describe("spec.yaml") for each in mistakes(tmp_path, profile, spec, common)]
    assert any(said in each for each in found), found


def test_a_profile_that_is_not_chosen_is_not_checked_against_the_models(tmp_path: Path) -> None:
    """`eos validate` is called once for each profile."""
    assert load(tmp_path, "dev", SPEC.replace("10s", "10")).pipeline == "orders"


def test_the_command_line_chooses_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE, "dev")
    load(tmp_path)
    assert run_command_line(["--profile", "prod", "validate", str(tmp_path / "spec.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "a checkpoint every 10 s" in shown
    assert "sink screen from orders" in shown


def test_an_editor_takes_the_parts() -> None:
    validator = Draft202012Validator(json_schema())
    for text in (SPEC, "include: [a.yaml]\n", SPEC.replace("include: common.yaml\n", COMMON)):
        assert [error.json_path for error in validator.iter_errors(YAML(typ="safe").load(text))] == []
    assert not validator.is_valid({"pipeline": "p"})


def test_a_spec_of_one_part_is_returned_as_it_is() -> None:
    """Otherwise its text is masked as one whose values a profile may have replaced."""
    found: list[Mistake] = []
    own = read_yaml("pipeline: orders\nsinks: []\n", found.append)
    assert compose(own, {}, found.append, Path.read_text) is own
    assert found == []
