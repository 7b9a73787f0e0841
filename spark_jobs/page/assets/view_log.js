// The last lines of the logs.

import { get, Refused } from "./api.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { quiet, section, timeCell, waiting } from "./parts.js";

const LOGS = [
  ["run", "eos"],
  ["spark", "Spark"],
  ["stderr", "stderr"],
];

let of = "run";
let log = null;
let refusal = "";

export async function load(key) {
  const own = of;
  const found = await get(`pipelines/${key}/log?of=${own}`).catch((error) => {
    if (error instanceof Refused && error.status === 403) return { of: own, refusal: error.message };
    throw error;
  });
  return () => {
    if (own !== of) return; // another one was chosen meanwhile
    refusal = found.refusal ?? "";
    log = found;
  };
}

export function render({ refresh }) {
  const choice = h(
    "div",
    { class: "range", role: "group", "aria-label": "the log that is shown" },
    LOGS.map(([name, text]) => h("button", { type: "button", "aria-pressed": String(name === of), onclick: () => choose(name, refresh) }, text)),
  );
  return [section("Log", choice, ...content())];
}

function content() {
  if (!log) return [waiting()];
  if (refusal) return [h("p", { class: "bad" }, refusal)];
  if (!log.is_there) return [quiet(of === "run" ? "The log of the run is where its process writes it: only the page of `eos run --ui` shows it here." : "There is no such log.")];
  if (!log.lines.length) return [quiet("No lines yet.")];
  const about = log.bytes === null ? "the newest lines" : [`the end of ${format.bytes(log.bytes)}, written `, timeCell(log.changed_at)];
  return [h("p", { class: "soft" }, about), h("pre", { class: "foreign log", tabindex: "0", role: "region", "aria-label": "lines of the log, oldest first" }, log.lines.join("\n"))];
}

/** The end is what one wants to see: it stays in view, unless somebody has scrolled up. */
export function rendered(root) {
  const element = root.querySelector("pre.log");
  if (!element) return;
  const lines = element.textContent.length;
  if (element.atEnd !== false && element.shownLines !== lines) element.scrollTop = element.scrollHeight;
  element.shownLines = lines;
  element.onscroll = () => (element.atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 24);
}

function choose(name, refresh) {
  of = name;
  log = null;
  refresh();
}

export function left() {
  log = null;
  refusal = "";
}
