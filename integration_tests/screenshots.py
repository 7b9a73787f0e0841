"""Makes the pictures of the page that the docs show: `make screenshots`. The history in them is made up."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from integration_tests.services.chromium import chromium, resize
from spark_jobs.observe.run_lock import present
from spark_jobs.page.opening import PageOptions, opened
from tests.page_history import RUN, live_through, spec_of

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"

_LIGHT: Final = {
    "overview": ("overview", 1180, 900),
    "checkpoints": ("checkpoints", 1180, 860),
    "checkpoint": ("checkpoints/301", 1180, 860),
    "phone": ("overview", 360, 740),
}
_DARK: Final = {"overview-dark": ("overview", 1180, 900)}


def main() -> None:
    """Write all of them."""
    IMAGES.mkdir(exist_ok=True)
    for dark in (False, True):
        with (
            tempfile.TemporaryDirectory() as folder,
            chromium(Path(folder) / "profile", dark=dark) as browser,
            _page(Path(folder)) as entry,
        ):
            browser.get(entry)
            for name, (view, width, height) in (_DARK if dark else _LIGHT).items():
                resize(browser, width, height)
                browser.execute_script(f"location.hash = '#/orders/{view}'")
                _shoot(browser, view, IMAGES / f"{name}.png")


@contextmanager
def _page(folder: Path) -> Iterator[str]:
    spec = spec_of(folder)
    live_through(spec, time.time() - 1)
    with present(spec, RUN), opened([spec], PageOptions(port=0), lambda _spec: []) as page:
        yield page.entry


def _shoot(browser: Chrome, view: str, path: Path) -> None:
    WebDriverWait(browser, 30).until(
        lambda _: browser.find_elements(By.CSS_SELECTOR, f"[data-key='orders/{view}'] :is(table, pre)")
    )
    time.sleep(1)  # charts know their width
    browser.save_screenshot(str(path))
    print(f"{path.name}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
