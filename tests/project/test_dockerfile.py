"""The image's build finds the files that it copies."""

from __future__ import annotations

import re

from tests.project.test_release import ROOT


def test_what_the_dockerfile_copies_is_sent_to_the_build() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"(?m)^COPY (?!--)(.*)$", text) for word in line.split()[:-1]]
    assert "docker/requirements.lock" in copied
    excluded, *admitted = (ROOT / ".dockerignore").read_text().splitlines()
    assert excluded == "*"
    assert {word for word in copied if f"!{word}" not in admitted} == set()
    assert all((ROOT / word).exists() for word in copied)
