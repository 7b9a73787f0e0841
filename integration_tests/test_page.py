"""The page in a real browser, over the history of an hour: every view, any width, keyboard, both themes, its end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from connectors.dead_letters import DeadLetter
from connectors.registry import open_requests
from connectors.spec import Spec
from integration_tests.harness.page_browser import VIEWS, body, browser_or_skip, go, press, shows
from integration_tests.services.chromium import logged, resize
from spark_jobs.observe.history.database import NAME
from spark_jobs.observe.history.model import AbortedAttempt, Event
from spark_jobs.observe.history.writer import HistoryWriter, Retention
from spark_jobs.observe.run_lock import present
from spark_jobs.observe.withheld import Poll, Withheld
from spark_jobs.page.live_view import Live
from spark_jobs.page.opening import PageOptions, opened
from tests.history_values import completed
from tests.page_history import INCARNATION, RUN, Names, live_through, no_sinks, put_letters, spec_of
from tests.page_http import TOKEN
from twophase.requests import Answer, Channel, Request

pytestmark = pytest.mark.any_server

HOSTILE = Names("<script>window.hit=1</script>", "<img src=x onerror=window.hit=2>", "'\"><svg onload=window.hit=3>")
CHECKPOINTS = 120
PLAIN = Names()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser_or_skip(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    return living(tmp_path_factory.mktemp("page"))


def living(folder: Path, names: Names = PLAIN, checkpoints: int = CHECKPOINTS) -> Spec:
    """A pipeline with a past, a dead letter, and a log of Spark's."""
    found = spec_of(folder, names)
    live_through(found, time.time() - 1, checkpoints)
    put_letters(found, [DeadLetter("orders", None, "orders", 0, 17, None, None, b"{", [], "no JSON", 41)])
    (found.checkpoint.folder / "spark.log").write_text("WARN a line\n")
    return found


def live() -> Live:
    """What the driver's own page knows of its pipeline."""
    found = Live(text="running")
    found.log.add("a line of the run")
    return found


@pytest.fixture
def entry(spec: Spec, browser: Chrome) -> Iterator[str]:
    """The URL that is printed; a browser that is as new, and in the end has had no error and asked nobody else."""
    with present(spec, RUN), opened([spec], PageOptions(port=0), no_sinks, lives=[live()]) as page:
        resize(browser, 1280, 900)
        browser.get(f"{page.url}icon.svg")  # of the page's origin, and asks nothing
        browser.execute_script("localStorage.clear(); sessionStorage.clear()")
        for kind in ("browser", "performance"):
            logged(browser, kind)
        yield page.entry
        assert complaints(browser) == []
        assert hosts_asked(browser) <= {"127.0.0.1"}


def complaints(browser: Chrome) -> list[str]:
    """Return the browser's log without favicon.ico, which it may ask for after the log has been emptied."""
    return [line for line in logged(browser, "browser") if "favicon.ico" not in line]


def hosts_asked(browser: Chrome) -> set[str | None]:
    events = [json.loads(line)["message"] for line in logged(browser, "performance")]
    urls = [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]
    assert urls
    return {urlsplit(url).hostname for url in urls if not url.startswith("data:")}


def the_request(channel: Channel) -> Request:
    """The one that is pending: the page says "asked" before its request has arrived."""
    until = time.monotonic() + 20
    while not (pending := channel.pending()):
        assert time.monotonic() < until, "no request arrived"
        time.sleep(0.05)
    (request,) = pending
    return request


def add(spec: Spec, numbers: range) -> None:
    """More checkpoints in the history."""
    writer = HistoryWriter(spec.checkpoint.folder / NAME, Retention(), 0.0)
    writer.write([completed(number, incarnation=INCARNATION) for number in numbers], 0.0)
    writer.close()


def test_records_that_cannot_be_read_yet(browser: Chrome, entry: str, spec: Spec) -> None:
    browser.get(entry)
    shows(browser, "main", "Lag by partition")
    assert "cannot be read yet" not in body(browser)
    kept = Withheld(spec.checkpoint.folder, {})
    kept.observe([Poll("orders", time.time(), "an open transaction", {"orders/2": (5, 1_506)})])
    shows(browser, "main", "Records that cannot be read yet")
    shows(browser, "main", "1,501 records: waiting for an open transaction since ")
    kept.observe([Poll("orders", time.time() + 1, "an open transaction", {})])
    WebDriverWait(browser, 20, 0.1).until(lambda _browser: "cannot be read yet" not in body(browser))


def test_every_view_says_what_the_history_says(browser: Chrome, entry: str) -> None:
    browser.get(entry)
    shows(browser, ".state", "running")
    wanted = {
        "overview": ["exactly-once", "orders/2", "Lag by partition", "incarnation", "checkpoint 119", "records/s"],
        "checkpoints": ["p95", "Older ones", "committed", "completed", "119"],
        "checkpoints/77": ["try 2", "SinkUnavailableError", "warehouse", "Acknowledgements", "orders: orders/0"],
        "sinks": ["warehouse", "two-phase", "dead letters", "Backlog", "postgresql+psycopg://eos:***@db/shop"],
        "failures": ["the sink warehouse does not answer", "restarting in 1.0 s", "Aborted tries", RUN],
        "spec": ["pipeline: orders", "sasl.password: '***'"],
    }
    for view, texts in wanted.items():
        go(browser, view)
        for text in texts:
            shows(browser, "main", text)
    go(browser, "checkpoints")
    rows = "return document.querySelectorAll('tbody tr.link').length"
    assert browser.execute_script(rows) == 25
    browser.find_element(By.CSS_SELECTOR, ".older button").click()
    WebDriverWait(browser, 10).until(lambda _: browser.execute_script(rows) == CHECKPOINTS)
    browser.execute_script("document.querySelector('tbody tr.link td:nth-child(2)').click()")
    shows(browser, "main", "Checkpoint 119")
    go(browser, "overview")
    assert browser.execute_script("return document.querySelectorAll('.chart path.line').length") >= 4
    chart = browser.find_element(By.CSS_SELECTOR, ".chart svg")
    ActionChains(browser).move_to_element(chart).perform()
    tips = browser.find_elements(By.CSS_SELECTOR, ".tip")
    assert [tip.is_displayed() for tip in tips] == [True, True, True]
    assert "records" in tips[0].text


def test_a_phone_scrolls_in_one_direction(browser: Chrome, entry: str) -> None:
    browser.get(entry)
    for width in (360, 768):
        resize(browser, width, 740)
        for view in VIEWS:
            go(browser, view)
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, f"{view} is {wide} px wide at {width}"


def test_by_keyboard_alone(browser: Chrome, entry: str) -> None:
    browser.get(entry)
    shows(browser, ".state", "running")
    reached = []
    for _ in range(20):
        press(browser, Keys.TAB)
        element = browser.switch_to.active_element
        reached.append(element.text or element.get_attribute("aria-label"))
        assert browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid", (
            reached
        )
    assert reached[0] == "Skip to the content"
    assert reached[1:6] == ["eos, all pipelines", "Checkpoint", "Savepoint", "Pause", "Restart"]
    assert reached[6:10] == ["Stop", "Dark", "?", "Overview"]
    assert reached[17:] == ["15 min", "1 h", "6 h"]
    browser.execute_script("document.getElementById('skip').focus()")
    press(browser, Keys.ENTER, Keys.TAB)
    assert browser.switch_to.active_element.text == "15 min", "past the header"
    assert browser.current_url.endswith("#/orders/overview")
    press(browser, "2")
    shows(browser, "h2", "History")
    browser.execute_script("document.querySelector('tbody a').focus()")
    time.sleep(2.5)  # what has the focus outlasts a refresh
    press(browser, Keys.ENTER)
    shows(browser, "h2", "Checkpoint 119")
    press(browser, Keys.ESCAPE)
    shows(browser, "h2", "History")
    press(browser, "?")
    shows(browser, "dialog[open]", "Keyboard")
    press(browser, "3")  # a dialog takes the keys
    browser.find_element(By.CSS_SELECTOR, "dialog input").click()
    press(browser, Keys.ESCAPE)
    WebDriverWait(browser, 5).until(lambda _: not browser.find_elements(By.TAG_NAME, "dialog"))
    press(browser, "1")
    time.sleep(0.3)
    shows(browser, "h2", "History")  # single keys were switched off
    browser.execute_script("localStorage.clear()")
    press(browser, "1")
    shows(browser, "[data-key='chart-rate'] svg")
    browser.execute_script("document.querySelector('.chart svg').focus()")
    press(browser, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert browser.find_element(By.CSS_SELECTOR, ".tip").is_displayed()


OUTLINE = "return [...document.querySelectorAll('h1, h2, h3, h4')].map(e => Number(e.tagName[1]))"


def test_headings_and_names_tell_the_same_as_the_picture(browser: Chrome, entry: str) -> None:
    browser.get(entry)
    for view in VIEWS:
        go(browser, view)
        levels = browser.execute_script(OUTLINE)
        assert levels.count(1) == 1
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels)), (view, levels)
        tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        acting = [each for each in tree if each["role"]["value"] in {"button", "link", "textbox", "checkbox", "image"}]
        assert len(acting) > 8
        assert [each for each in acting if not each["name"]["value"]] == [], view


def test_older_ones_stay_and_are_there_once_while_new_ones_come(browser: Chrome, entry: str, tmp_path: Path) -> None:
    spec, now = spec_of(tmp_path), time.time()
    numbers = "return [...document.querySelectorAll('tbody tr.link')].map(e => Number(e.cells[0].textContent))"
    last = live_through(spec, now - 200, 200)
    with present(spec, RUN), opened([spec], PageOptions(port=0), no_sinks) as page:
        browser.get(page.entry)
        go(browser, "checkpoints")
        more = "const b = document.querySelector('.older button'); b.click(); b.click()"
        browser.execute_script(more)
        WebDriverWait(browser, 10).until(lambda _: len(browser.execute_script(numbers)) == 125)
        for end in (last + 21, last + 41):
            add(spec, range(end - 20, end))
            shows(browser, "tbody a", str(end - 1))
        assert browser.execute_script(numbers) == list(range(last + 40, 74, -1))
        assert browser.find_elements(By.CSS_SELECTOR, ".older button")
    browser.get("about:blank")


CONTRAST = """
const channel = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
function light(color) {
  const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((each) => channel(each / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(element) {
  const found = getComputedStyle(element).backgroundColor;
  return found.endsWith(", 0)") ? ground(element.parentElement) : found;
}
function contrast(element) {
  const style = getComputedStyle(element);
  const text = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
  const [more, less] = [light(text), light(ground(element))].sort((one, other) => other - one);
  return (more + 0.05) / (less + 0.05);
}
const hasText = (element) => [...element.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
return [...document.querySelectorAll("body *")]
  .filter((each) => hasText(each) && each.checkVisibility() && !each.closest(":disabled, noscript"))
  .map((each) => [`${each.tagName}.${each.className}: ${each.textContent.slice(0, 30)}`, contrast(each)]);
"""


def test_dark_and_light_can_both_be_read(browser: Chrome, entry: str) -> None:
    for scheme, button in (("dark", "Light"), ("light", "Dark")):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(entry)
        shows(browser, ".tools", button)
        for view in VIEWS:
            go(browser, view)
            found = browser.execute_script(CONTRAST)
            assert len(found) > 20
            assert [each for each in found if each[1] < 4.5] == [], (scheme, view)
    grounds = []
    for _ in range(2):
        grounds.append(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
        press(browser, "d")
        shows(browser, ".tools", "Light" if len(grounds) == 1 else "Dark")
        browser.refresh()
        shows(browser, ".tools", "Light" if len(grounds) == 1 else "Dark")
    assert len(set(grounds)) == 2


MOVED = """
window.moved = [];
const box = ({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(" ");
const told = ({ node, previousRect, currentRect }) =>
  `${node?.parentElement?.outerHTML.slice(0, 200)}: ${box(previousRect)} to ${box(currentRect)}`;
const seen = (list) => list.getEntries().forEach((each) => window.moved.push(...each.sources.map(told)));
new PerformanceObserver(seen).observe({ type: "layout-shift" });
"""


def test_a_refresh_moves_nothing(browser: Chrome, entry: str) -> None:
    browser.get(entry)
    for view in VIEWS:
        go(browser, view)
        time.sleep(0.5)
        browser.execute_script(MOVED)
        time.sleep(2.5)
        assert browser.execute_script("return window.moved") == [], view


def test_a_figure_that_gets_shorter_moves_nothing(browser: Chrome, tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    live_through(spec, time.time() - 50, CHECKPOINTS)
    with present(spec, RUN), opened([spec], PageOptions(port=0), no_sinks) as page:
        browser.get(page.entry)
        shows(browser, ".figure", "Throughput")
        time.sleep(1)
        browser.execute_script(MOVED)
        value = browser.find_element(By.CSS_SELECTOR, ".figure .value")
        assert not value.text.startswith("0")
        WebDriverWait(browser, 30).until(lambda _browser: value.text.startswith("0"))
        assert browser.execute_script("return window.moved") == []


def test_buttons_ask_and_tell_the_answer(browser: Chrome, entry: str, spec: Spec) -> None:
    browser.get(entry.partition("#")[0])
    shows(browser, ".actions", "Unlock")
    shows(browser, "dialog[open]", "The token of this page")
    assert "Throughput" not in body(browser)
    assert all("401" in line for line in complaints(browser))
    browser.get(entry)  # in the same tab: the question is answered
    shows(browser, ".actions", "Stop")
    assert not browser.find_elements(By.CSS_SELECTOR, "dialog[open]")
    assert "token" not in browser.current_url
    assert "token" not in browser.execute_script("return document.documentElement.outerHTML").replace("data-token", "")
    with open_requests(spec) as channel:
        browser.find_element(By.CSS_SELECTOR, "[data-key=checkpoint]").click()
        shows(browser, ".note", "checkpoint: asked")
        asked = the_request(channel)
        channel.answer(asked, Answer(ok=True, message="checkpoint 120"))
        shows(browser, ".note", "checkpoint: checkpoint 120")
        browser.find_element(By.CSS_SELECTOR, "[data-key=stop]").click()
        shows(browser, "dialog[open]", "Stop orders?")
        press(browser, Keys.ESCAPE)
        time.sleep(0.3)
        assert channel.pending() == ()
        browser.find_element(By.CSS_SELECTOR, "[data-key=stop]").click()
        browser.find_element(By.CSS_SELECTOR, "dialog input").click()
        browser.find_element(By.CSS_SELECTOR, "dialog button.primary").click()
        shows(browser, ".note", "stop: asked")
        asked = the_request(channel)
        assert (asked.kind, dict(asked.arguments)) == ("stop", {"now": "true"})
        channel.answer(asked, Answer(ok=False, message="not now"))
        shows(browser, ".note.bad", "stop: not now")


def test_hostile_names_are_shown_and_not_run(browser: Chrome, entry: str, tmp_path: Path) -> None:
    spec = living(tmp_path, HOSTILE, 90)
    with present(spec, RUN), opened([spec], PageOptions(port=0), no_sinks, lives=[live()]) as page:
        browser.get(page.entry)
        shows(browser, "h1", HOSTILE.pipeline)
        key = browser.current_url.split("#/")[1].split("/")[0]
        for view in VIEWS:
            go(browser, view, key)
        go(browser, "sinks", key)
        shows(browser, "h3", HOSTILE.sink)
        shows(browser, "code", HOSTILE.table)
        browser.find_element(By.CSS_SELECTOR, "[data-key=stop]").click()
        shows(browser, "dialog h2", HOSTILE.pipeline)
        assert browser.execute_script("return window.hit") is None
        assert browser.execute_script("return document.querySelectorAll('main script, main img, main svg').length") == 0
    browser.get("about:blank")


QUOTED = "<img src=x onerror=window.hit={n}></pre></script><script src=main.js>{n}</script><svg onload=window.hit={n}>"


def test_what_errors_quote_of_records_is_shown_and_not_run(browser: Chrome, entry: str, tmp_path: Path) -> None:
    """Where a record's contents come to the page: messages, remedies and reasons. The page's own policy, which would
    keep a script from running, is left out, so that the page alone has to."""
    spec, now = spec_of(tmp_path), time.time()
    texts = [QUOTED.format(n=n) for n in range(5)]
    last = live_through(spec, now - 1, 90)
    writer = HistoryWriter(spec.checkpoint.folder / NAME, Retention(), 0.0)
    failure = Event(now, "failure", texts[0], texts[1], texts[2], checkpoint_id=last, run_id=RUN)
    aborted = AbortedAttempt(INCARNATION, last, 4, 1, now, "BadRowError", texts[3])
    writer.write([failure, aborted], now)
    writer.close()
    Withheld(spec.checkpoint.folder, {}).observe([Poll("orders", now, texts[4], {"orders/2": (5, 1_506)})])
    browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    try:
        with present(spec, RUN), opened([spec], PageOptions(port=0), no_sinks) as page:
            browser.get(page.entry)
            for view, shown in (
                ("failures", texts[:4]),
                (f"checkpoints/{last}", texts[3:4]),
                ("overview", texts[4:]),
            ):
                go(browser, view)
                for text in shown:
                    shows(browser, "main", text)
                assert not browser.find_elements(By.CSS_SELECTOR, "main :is(script, img, svg[onload], iframe)"), view
            assert browser.execute_script("return window.hit") is None
            assert (
                browser.execute_script(
                    "document.body.append(document.createRange().createContextualFragment(arguments[0]));"
                    "return new Promise((told) => setTimeout(() => told(window.hit), 500))",
                    texts[0],
                )
                == 0
            ), "the text would run"
        browser.get("about:blank")
    finally:
        browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
        logged(browser, "browser")


def test_a_server_that_has_gone_is_seen_and_so_is_its_return(browser: Chrome, spec: Spec) -> None:
    """With the token of before, which the page keeps."""
    with present(spec, RUN), opened([spec], PageOptions(port=0, token=TOKEN), no_sinks) as page:
        browser.get(f"{page.url}#token={TOKEN}")
        shows(browser, ".state", "running")
        port = urlsplit(page.url).port
    shows(browser, ".state.gone", "no answer")
    shows(browser, "#banner", "The server does not answer")
    shows(browser, "main", "Throughput")
    assert port is not None
    with opened([spec], PageOptions(port=port, token=TOKEN), no_sinks) as page:
        shows(browser, ".state.killed", "killed")
        assert "does not answer" not in body(browser)
        assert "Stop" not in body(browser)  # nobody runs it
    browser.get("about:blank")
    logged(browser, "browser")
