"""Rules of accessibility: axe-core, run inside a page of the tests' browser."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from selenium.webdriver import Chrome

_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then(
  (found) => done(found.violations), (error) => done([{ id: String(error), nodes: [] }]));
"""


def violations(browser: Chrome) -> list[str]:
    """Return the rules of axe-core that the shown page breaks, each with its elements. Takes a second.

    All rules that axe-core has on: those of WCAG 2.0, 2.1 and 2.2 of levels A and AA, and its best practices.
    """
    if not browser.execute_script("return typeof axe === 'object'"):
        browser.execute_script(files("selenium_axe_python").joinpath("axe-core", "axe.min.js").read_text())
    browser.set_script_timeout(60)
    found: list[dict[str, Any]] = browser.execute_async_script(_RUN)
    return [f"{each['id']}: {_elements(each)}" for each in found]


def _elements(violation: dict[str, Any]) -> str:
    return "; ".join(f"{node['html'][:200]} ({node.get('failureSummary', '')})" for node in violation["nodes"][:5])
