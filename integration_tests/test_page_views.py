"""Each view of the page in a real browser: at the width of a desk and of a phone, light and dark, and accessible."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from connectors.dead_letters import DeadLetter
from connectors.spec import Spec
from integration_tests.harness.page_browser import VIEWS, body, browser_or_skip, go, press, shows
from integration_tests.services.accessibility import violations
from integration_tests.services.chromium import logged, resize
from spark_jobs.observe.activity import Activity, TaskCounts
from spark_jobs.observe.history.model import StateOperator, StateSize
from spark_jobs.observe.run_lock import present
from spark_jobs.operations import dead_letters as operations
from spark_jobs.page.live_view import Live
from spark_jobs.page.opening import Opened, PageOptions, opened
from tests.page_history import RUN, live_through, no_sinks, put_letters, spec_of
from tests.page_http import TOKEN

pytestmark = pytest.mark.any_server

DESK, PHONE = (1440, 900), (360, 740)
READ_TOKEN = "a-token-that-reads-only"
HOSTILE = "<img src=x onerror=window.hit=1></pre><script>window.hit=2</script> \x1b[2J \u202egnp.exe"
LETTER = DeadLetter(
    "orders",
    None,
    "orders",
    0,
    17,
    "2026-11-26T10:00:00+00:00",
    b"key",
    HOSTILE.encode(),
    [("trace", b"abc")],
    f"no JSON: {HOSTILE}",
    5,
)


def living(folder: Path, checkpoints: int) -> Spec:
    found = spec_of(folder)
    live_through(found, time.time() - 1, checkpoints)
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser_or_skip(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    found = living(tmp_path_factory.mktemp("page"), 120)
    rows = [replace(LETTER, offset=18, sink="warehouse", value=b'{"id": 1}', error="too long: 'abcdef'")]
    rows.append(replace(LETTER, offset=19, value=b"\xff\x00" * 600, key=None, headers=[], error="not UTF-8"))
    put_letters(found, [LETTER, *rows])
    (found.checkpoint.folder / "spark.log").write_text(f"WARN TaskSetManager: {HOSTILE}\n" + "INFO a line\n" * 90)
    return found


@pytest.fixture(scope="module")
def live() -> Live:
    found = Live(text="running", spark_ui="http://127.0.0.1:4040")
    found.log.add("eos.checkpoint: pipeline=orders checkpoint=119 state=committed")
    now = time.time()
    found.activity = lambda: Activity("tasks", now, "tasks, which write", 120, now - 2, tasks=TaskCounts(16, 12, 4, 1))
    operators = (
        StateOperator(0, "totals", "stateStoreSave", 12_345, 300, 20, 7, 5_000_000, 41),
        StateOperator(1, HOSTILE, "dedupe", 1_234_567, 500, 0, 0, 95_000_000, 230),
    )
    found.on_state_size(StateSize(7, operators, now, now - 60))
    return found


@pytest.fixture(scope="module")
def page(spec: Spec, live: Live) -> Iterator[Opened]:
    options = PageOptions(port=0, read_token=READ_TOKEN)
    with present(spec, RUN), opened([spec], options, no_sinks, lives=[live]) as found:
        yield found


def enter(browser: Chrome, page: Opened, size: tuple[int, int] = DESK, scheme: str = "light") -> None:
    """Open the page as a new browser of this size and colour scheme would."""
    resize(browser, *size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(f"{page.url}icon.svg")
    browser.execute_script("localStorage.clear(); sessionStorage.clear()")
    browser.get(page.entry)
    shows(browser, ".state", "running")
    logged(browser, "browser")


CUT = """
return [...document.querySelectorAll("main .scroll, main .figure .value")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${each.className} ${each.scrollWidth} > ${each.clientWidth}: ${each.textContent.slice(0, 80)}`);
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_each_view_is_accessible_and_fits(browser: Chrome, page: Opened, size: tuple[int, int], scheme: str) -> None:
    enter(browser, page, size, scheme)
    found: dict[str, object] = {}
    for view in VIEWS:
        go(browser, view)
        found[f"{view}: rules"] = violations(browser)
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        found[f"{view}: width"] = [wide] if wide > size[0] else []
        found[f"{view}: cut off"] = browser.execute_script(CUT) if size == DESK else []
    go(browser, "letters")
    browser.execute_script("document.querySelector('tbody a').click()")
    shows(browser, "h2", "Value")
    found["a dead letter: rules"] = violations(browser)
    for name, script in {
        "stop": "document.querySelector('[data-key=stop]').click()",
        "help": "document.querySelector('[aria-label=\"keyboard shortcuts\"]').click()",
    }.items():
        browser.execute_script(script)
        shows(browser, "dialog[open]")
        found[f"the dialog {name}: rules"] = violations(browser)
        press(browser, Keys.ESCAPE)
        WebDriverWait(browser, 5).until(lambda _: not browser.find_elements(By.TAG_NAME, "dialog"))
    assert {name: each for name, each in found.items() if each} == {}
    assert len(found) == 3 * len(VIEWS) + 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_of_pipelines_the_question_for_the_token_and_a_server_that_has_gone(
    browser: Chrome, tmp_path: Path, scheme: str
) -> None:
    spec = living(tmp_path, 12)
    with present(spec, RUN), opened([spec, spec], PageOptions(port=0), no_sinks) as page:
        resize(browser, *DESK)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(page.url)
        shows(browser, "dialog[open]", "The token of this page")
        assert violations(browser) == []
        browser.get(page.entry)
        shows(browser, "main", "Pipelines")
        assert violations(browser) == []
        go(browser, "overview")
        shows(browser, "main", "Known to the page of the run only")
    shows(browser, ".state.gone", "no answer")
    assert violations(browser) == []
    browser.get("about:blank")
    logged(browser, "browser")


PHASES = """
const channel = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = (color) => color.match(/[\\d.]+/g).slice(0, 3)
  .map((each) => channel(each / 255)).reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
const ground = light(getComputedStyle(document.body).backgroundColor);
return [...document.querySelectorAll(".legend i")].map((each) => {
  const [more, less] = [light(getComputedStyle(each).backgroundColor), ground].sort((one, other) => other - one);
  return [each.parentElement.textContent, (more + 0.05) / (less + 0.05), getComputedStyle(each).backgroundColor];
});
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_phase_can_be_seen(browser: Chrome, page: Opened, scheme: str) -> None:
    """WCAG 1.4.11: parts of a picture have a contrast of 3 to their ground."""
    enter(browser, page, scheme=scheme)
    go(browser, "checkpoints")
    found = browser.execute_script(PHASES)
    assert [each[0] for each in found] == ["plan", "start", "read", "write", "prepare", "decide", "wait", "commit"]
    assert [each for each in found if each[1] < 3] == []
    assert len({each[2] for each in found}) == 8


def test_times_have_dates_charts_have_blanks_and_sql_has_lines(browser: Chrome, page: Opened) -> None:
    enter(browser, page)
    go(browser, "checkpoints")
    times = browser.execute_script("return [...document.querySelectorAll('.time')].map(e => e.textContent)")
    assert len(times) >= 25
    now = time.gmtime()
    month = time.strftime("%b", now)
    assert all(month in each or time.strftime("%b", time.gmtime(time.time() - 3600)) in each for each in times), times
    go(browser, "overview")
    legends = browser.execute_script(
        "return [...document.querySelectorAll('.chart .head p span')].map(e => e.innerText)"
    )
    assert len(legends) >= 4
    assert all(" " in each.strip() for each in legends), legends
    go(browser, "spec")
    assert "\\n" not in body(browser)


def test_few_checkpoints_are_in_the_charts_at_once(browser: Chrome, tmp_path: Path) -> None:
    spec = living(tmp_path, 12)
    with present(spec, RUN), opened([spec], PageOptions(port=0), no_sinks) as page:
        browser.get(page.entry)
        shows(browser, ".state", "running")
        browser.execute_script("[...document.querySelectorAll('.range button')].at(-1).click()")
        shows(browser, ".range button[aria-pressed=true]", "24 h")
        shows(browser, "[data-key=chart-duration] .head b")
        assert "no checkpoint in this time" not in body(browser)
    browser.get("about:blank")
    logged(browser, "browser")


def test_the_checkpoint_in_progress(browser: Chrome, page: Opened, live: Live) -> None:
    enter(browser, page)
    for text in (
        "120, for ",
        "tasks, for ",
        "tasks, which write",
        "12 of 16 done, 4 run, 1 failed",
        "1,246,912 rows",
        "12,345",
    ):
        shows(browser, "main", text)
    link = browser.find_element(By.LINK_TEXT, "http://127.0.0.1:4040")
    assert (link.get_attribute("rel"), link.get_attribute("target")) == ("noopener noreferrer", "_blank")
    before = live.spark_ui
    live.spark_ui = "javascript:alert(1)"
    try:
        shows(browser, "main code", "javascript:alert(1)")
        assert not browser.find_elements(By.CSS_SELECTOR, "main a[href^='javascript']")
    finally:
        live.spark_ui = before


def test_the_graph(browser: Chrome, page: Opened) -> None:
    enter(browser, page)
    go(browser, "graph")
    nodes = browser.execute_script(
        "return [...document.querySelectorAll('.node')].map(e => [e.children[0].textContent, e.offsetLeft])"
    )
    columns = dict(nodes)
    assert list(columns) == ["orders", "big", "warehouse", "archive", "dead_letter"]
    assert columns["orders"] < columns["big"] < columns["warehouse"] == columns["archive"] == columns["dead_letter"]
    cut = "return [...document.querySelectorAll('.node > *')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert browser.execute_script(cut) == 0
    assert browser.execute_script("return document.querySelectorAll('.graph path.edge').length") == 4
    places = [each.rect for each in browser.find_elements(By.CSS_SELECTOR, ".node")]
    for one in places:
        over = [
            other
            for other in places
            if other is not one
            and abs(other["x"] - one["x"]) < one["width"]
            and abs(other["y"] - one["y"]) < one["height"]
        ]
        assert over == [], "no part lies upon another"
    rows = browser.execute_script("return [...document.querySelectorAll('table')][0].innerText")
    assert "orders\tbig" in rows
    assert "big\twarehouse" in rows
    resize(browser, *PHONE)
    WebDriverWait(browser, 5).until(lambda _: not browser.find_element(By.CSS_SELECTOR, ".graph").is_displayed())
    resize(browser, *DESK)


def shown_letters(browser: Chrome) -> list[str]:
    return list(browser.execute_script("return [...document.querySelectorAll('tbody a')].map(e => e.textContent)"))


def test_dead_letters_are_browsed_and_their_contents_stay_text(browser: Chrome, page: Opened) -> None:
    """The page's own policy, which would keep a script from running, is left out, so that the page alone has to."""
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    try:
        enter(browser, page)
        go(browser, "letters")
        assert sorted(shown_letters(browser)) == ["orders/0/17", "orders/0/18", "orders/0/19"]
        field = browser.find_element(By.CSS_SELECTOR, "input[type=search]")
        field.send_keys("no json")
        WebDriverWait(browser, 5).until(lambda _: shown_letters(browser) == ["orders/0/17"])
        time.sleep(2.5)  # a refresh takes neither the focus nor the text
        assert browser.switch_to.active_element == field
        assert field.get_attribute("value") == "no json"
        browser.find_element(By.LINK_TEXT, "orders/0/17").click()
        shows(browser, "pre", "<img src=x onerror=window.hit=1></pre>")
        shows(browser, "pre", "\\x1b[2J \\u202egnp.exe")
        shows(browser, "main", "trace")
        assert not browser.find_elements(By.CSS_SELECTOR, "main :is(script, img, iframe)")
        assert browser.execute_script("return window.hit") is None
        press(browser, Keys.ESCAPE)
        shows(browser, "h2", "Dead letters")
        field = browser.find_element(By.CSS_SELECTOR, "input[type=search]")
        field.clear()
        field.send_keys("0/19")
        WebDriverWait(browser, 5).until(lambda _: shown_letters(browser) == ["orders/0/19"])
        browser.find_element(By.LINK_TEXT, "orders/0/19").click()
        shows(browser, "pre", "ff00ff00 ff00ff00")
        shows(browser, "main", "not text: hexadecimal digits")
        assert "\x1b" not in body(browser)
        assert "\u202e" not in body(browser)
    finally:
        browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
        logged(browser, "browser")


def test_dead_letters_are_replayed(browser: Chrome, page: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Sequence[DeadLetter]] = []

    def resend(_spec: Spec, chosen: Sequence[DeadLetter]) -> Iterator[Sequence[DeadLetter]]:
        calls.append(chosen)
        yield chosen

    monkeypatch.setattr(operations, "resend", resend)
    enter(browser, page)
    go(browser, "letters")
    (choose, again) = browser.find_elements(By.CSS_SELECTOR, "main .actions button")
    assert not again.is_enabled()
    browser.find_element(By.CSS_SELECTOR, "[aria-label='choose orders/0/17']").click()
    shows(browser, "main .actions", "Replay 1")
    choose.click()
    shows(browser, "main .actions", "Replay 3")
    boxes = "return [...document.querySelectorAll('td input')].map(e => e.checked)"
    assert browser.execute_script(boxes) == [True] * 3
    time.sleep(2.5)
    assert browser.execute_script(boxes) == [True] * 3, "a refresh changes no choice"
    browser.find_element(By.CSS_SELECTOR, "[aria-label='choose orders/0/19']").click()
    shows(browser, "main .actions", "Replay 2")
    browser.find_elements(By.CSS_SELECTOR, "main .actions button")[1].click()
    shows(browser, "dialog[open]", "Every sink gets the records whose rows were rejected (sink warehouse), also sinks")
    assert violations(browser) == []
    press(browser, Keys.ESCAPE)
    time.sleep(0.3)
    assert calls == []
    browser.find_elements(By.CSS_SELECTOR, "main .actions button")[1].click()
    browser.find_element(By.CSS_SELECTOR, "dialog button.primary").click()
    shows(browser, ".note", "replay: 2 of 2 records were sent")
    assert sorted(str(each.place) for each in calls[0]) == ["orders/0/17", "orders/0/18"]
    shows(browser, "main .actions", "Replay")
    assert browser.execute_script(boxes) == [False] * 3


def test_a_token_that_reads_only_is_told_so(browser: Chrome, page: Opened) -> None:
    enter(browser, page)
    browser.execute_script("sessionStorage.clear()")
    browser.get(f"{page.url}#token={READ_TOKEN}")
    shows(browser, ".state", "running")
    for view, words in (("letters", "the token reads only"), ("log", "the token reads only")):
        browser.execute_script(f"location.hash = '#/orders/{view}'")
        shows(browser, "main .bad", words)
    assert "onerror" not in body(browser)
    assert all("403" in line for line in logged(browser, "browser"))


def test_the_log(browser: Chrome, page: Opened) -> None:
    enter(browser, page)
    go(browser, "log")
    shows(browser, "pre", "checkpoint=119 state=committed")
    browser.execute_script(
        "[...document.querySelectorAll('.range button')].find(e => e.textContent === 'Spark').click()"
    )
    shows(browser, "pre", "WARN TaskSetManager: <img src=x onerror=window.hit=1>")
    shows(browser, "pre", "\\u202egnp.exe")
    assert browser.execute_script("const e = document.querySelector('pre'); return e.scrollTop > 0"), "its end"
    assert not browser.find_elements(By.CSS_SELECTOR, "main :is(script, img)")
    browser.execute_script("[...document.querySelectorAll('.range button')].at(-1).click()")
    shows(browser, "main", "There is no such log.")


def test_a_killed_run_is_a_failure(browser: Chrome, tmp_path: Path) -> None:
    spec = living(tmp_path, 12)
    with opened([spec], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        browser.get(f"{page.url}#token={TOKEN}")
        shows(browser, ".state", "killed")
        go(browser, "failures")
        shows(browser, ".events", "Process 20817 on worker-1 ended without a report")
        shows(browser, ".events .badge", "killed")
    browser.get("about:blank")
    logged(browser, "browser")
