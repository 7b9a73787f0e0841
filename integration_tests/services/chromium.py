"""Chromium without a window, for the tests of the page; installed where it is missing and this user may."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from integration_tests.services.debian import install
from integration_tests.services.values import ServiceError

_DEBIAN_PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core")

_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it runs as root in containers, and opens nothing but this machine's pages
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--lang=en-GB",
)


@contextmanager
def chromium(profile: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Chrome]:
    """A browser with a new profile in this folder; it remembers what it has logged and what it has asked for.

    Raises ServiceError where there is none and none can be installed.
    """
    browser, driver = _programs()
    options = ChromeOptions()
    options.binary_location = browser
    for flag in (*_FLAGS, f"--user-data-dir={profile}", *(["--force-dark-mode"] if dark else [])):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = Chrome(options, ChromeService(driver, env={**os.environ, "TZ": "UTC"}))
    try:
        resize(chrome, width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        yield chrome
    finally:
        chrome.quit()


def resize(chrome: Chrome, width: int, height: int) -> None:
    """The size of what is shown: windows have a least width, a telephone has less."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def logged(chrome: Chrome, kind: str) -> list[str]:
    """What it has logged since it was asked last: `browser` is its console, `performance` what it did."""
    return [str(line["message"]) for line in chrome.get_log(kind)]  # type: ignore[no-untyped-call]


def _programs() -> tuple[str, str]:
    found = shutil.which("chromium"), shutil.which("chromedriver")
    if not all(found):
        install("Chromium", _DEBIAN_PACKAGES)
        found = shutil.which("chromium"), shutil.which("chromedriver")
    browser, driver = found
    if browser is None or driver is None:
        raise ServiceError("chromium or chromedriver is not on PATH, although its package is installed")
    return browser, driver
