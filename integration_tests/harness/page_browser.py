"""The page in the tests' browser: its views, and what they show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from integration_tests.services import ServiceError
from integration_tests.services.chromium import chromium

VIEWS = ["overview", "checkpoints", "checkpoints/77", "graph", "sinks", "letters", "failures", "log", "spec"]
"""Of a pipeline with checkpoint 77."""


@contextmanager
def browser_or_skip(folder: Path) -> Iterator[Chrome]:
    """Start a browser with a profile in the folder; skip the test where there is none."""
    try:
        with chromium(folder / "profile") as found:
            yield found
    except ServiceError as error:
        pytest.skip(f"no browser: {error}")


def go(browser: Chrome, view: str, key: str = "orders") -> None:
    """Show a view of a pipeline, and wait until it has its data."""
    browser.execute_script(f"location.hash = '#/{key}/{view}'")
    shows(browser, f"[data-key='{key}/{view}'] :is(table, pre, dl)")


def shows(browser: Chrome, css: str, text: str = "") -> None:
    """Wait until an element has this text in it."""

    def found(_browser: Chrome) -> bool:
        return bool(
            browser.execute_script(
                "return [...document.querySelectorAll(arguments[0])].some(e => e.textContent.includes(arguments[1]))",
                css,
                text,
            )
        )

    WebDriverWait(browser, 20, 0.1).until(found, f"{css} with {text!r}; there is:\n{body(browser)}")


def body(browser: Chrome) -> str:
    """Return the text of the whole page."""
    return str(browser.find_element(By.TAG_NAME, "body").text)


def press(browser: Chrome, *keys: str) -> None:
    """Press keys, wherever the focus is."""
    ActionChains(browser).send_keys(*keys).perform()
