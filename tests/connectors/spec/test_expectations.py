"""The rules of a step: what a spec may say, and how many failed rows a rule allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.spec import Expectation, Spec, SpecMistakesError, exposures, load_spec

SPEC = """\
pipeline: p
checkpoint: {location: state}
sources:
  - {name: s, connector: kafka, bootstrap_servers: a, topics: [t], format: {type: raw}}
transforms:
  - name: first
    sql: SELECT * FROM s
    expect:
      - %s
  - {name: last, sql: SELECT * FROM first}
sinks:
  - {name: out, from: last, connector: sqlite, path: out.db, table: t, commit: write-ahead-log}
"""
LETTERS = "dead_letter: {connector: sqlite, path: out.db, table: bad, commit: write-ahead-log}\n"


def _load(folder: Path, *rules: str, more: str = "", environ: dict[str, str] | None = None) -> Spec:
    path = folder / "spec.yaml"
    path.write_text(SPEC % "\n      - ".join(rules) + more)
    return load_spec(path, environ or {})


def test_a_rule_warns_unless_it_says_otherwise(tmp_path: Path) -> None:
    spec = _load(tmp_path, "{name: known, condition: value IS NOT NULL}", "{name: big, condition: 1 > 0, action: skip}")
    (step,) = spec.expecting
    assert [(rule.name, rule.action, rule.max_failed) for rule in step.expect] == [
        ("known", "warn", None),
        ("big", "skip", None),
    ]
    assert not step.rejects_rows
    assert spec.trunk == "last"


def test_dead_letters_leave_the_flow_at_the_step_of_their_rule(tmp_path: Path) -> None:
    spec = _load(tmp_path, "{name: known, condition: value IS NOT NULL, action: dead-letter}", more=LETTERS)
    assert (spec.trunk, [step.name for step in spec.branches]) == ("first", ["last"])


@pytest.mark.parametrize(
    ("rules", "mistake"),
    [
        (["{name: r, condition: x > 0, action: drop}"], r"action: wrong value: 'drop'; allowed: warn, skip, dead-le"),
        (["{name: r, condition: x > 0, action: dead-letter}"], r"action: the spec lacks a `dead_letter` to write to"),
        (["{name: r}"], "missing key 'condition'"),
        (["{name: r, condition: ''}"], "condition: .* too short"),
        (["{name: a b, condition: x > 0}"], "name: .* is not a name of letters, digits and _"),
        (["{name: r, condition: x > 0}", "{name: R, condition: x > 1}"], "the rule '[rR]' is named twice"),
        (["{name: r, condition: \"reflect('a', 'b') = 'c'\"}"], "reflect.. runs code by its name"),
        (["{name: r, condition: IDENTIFIER('a' || 'b') = 1}"], "IDENTIFIER computes a name"),
        (["{name: r, condition: x > 0, max_failed: -1}"], "max_failed: too small"),
        (["{name: r, condition: x > 0, max_failed: 200%}"], "max_failed: wrong value"),
    ],
)
def test_a_wrong_rule_is_named_with_its_place(tmp_path: Path, rules: list[str], mistake: str) -> None:
    with pytest.raises(SpecMistakesError, match=mistake):
        _load(tmp_path, *rules)


@pytest.mark.parametrize(
    ("action", "limit", "failed", "allowed"),
    [
        ("warn", None, 10**9, True),
        ("warn", 0, 1, False),
        ("skip", 3, 3, True),
        ("skip", 3, 4, False),
        ("skip", "5%", 50, True),
        ("skip", "5%", 51, False),
        ("fail", None, 0, True),
        ("fail", None, 1, False),
        ("fail", 10, 1, False),
    ],
)
def test_a_rule_allows_so_many_rows(action: str, limit: object, failed: int, allowed: bool) -> None:
    rule = Expectation.model_validate({"name": "r", "condition": "x", "action": action, "max_failed": limit})
    assert rule.allows(failed, 1000) is allowed


@pytest.mark.parametrize(
    ("limit", "rows", "most"),
    [("1%", 1, 0), ("1%", 3, 0), ("1%", 99, 0), ("1%", 101, 1), ("0.1%", 3000, 3), ("7%", 100, 7), ("100%", 3, 3)],
)
def test_a_share_is_rounded_down(limit: str, rows: int, most: int) -> None:
    rule = Expectation.model_validate({"name": "r", "condition": "x", "action": "skip", "max_failed": limit})
    assert rule.allows(most, rows)
    assert not rule.allows(most + 1, rows)


def test_a_secret_in_a_condition_is_an_exposure(tmp_path: Path) -> None:
    more = 'spark: {conf: {spark.ui.enabled: "true"}}\n'
    spec = _load(tmp_path, "{name: r, condition: \"x = '${env:KEY}'\"}", more=more, environ={"KEY": "a long secret"})
    assert [each.of for each in exposures(spec) if each.of.startswith("step")] == ["step first"]


def test_counting_all_attempts_of_a_task_is_refused(tmp_path: Path) -> None:
    name = "spark.sql.legacy.observeMetricsAggregateAllAttempts"
    with pytest.raises(SpecMistakesError, match="a retried task would count twice"):
        _load(tmp_path, "{name: r, condition: x > 0}", more=f"spark: {{conf: {{{name}: 'true'}}}}\n")
