// What went wrong, what followed, and which processes ran it.

import { get } from "./api.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { Pages } from "./pages.js";
import { olderOnes, quiet, section, table, timeCell, waiting } from "./parts.js";

const pages = new Pages("events");
let tries = []; // that were aborted
let killed = [];
let runs = null;

export async function load(key) {
  const [failures, told] = await Promise.all([get(`pipelines/${key}/failures?limit=30`), get(`pipelines/${key}/runs`)]);
  return () => {
    pages.newest(failures);
    ({ killed } = failures);
    tries = failures.aborted;
    ({ runs } = told);
  };
}

export function render({ key, overview, refresh }) {
  if (!pages.shown) return [waiting()];
  return [
    section(
      "Failures and restarts",
      null,
      all().length ? h("ol", { class: "events" }, all().map(event)) : quiet("Nothing has failed."),
      olderOnes(pages, (before) => get(`pipelines/${key}/failures?limit=200&before=${before}`), refresh),
    ),
    tries.length ? section("Aborted tries", h("p", null, "nothing of them is visible"), aborted(key)) : null,
    section("Runs", h("p", null, "one for each process, newest first"), processes(overview)),
  ];
}

/** Events and killed runs in one list, newest first; of killed runs only the ones that are not older than the list. */
function all() {
  const oldest = pages.before === null ? -Infinity : pages.shown.at(-1).at;
  const of = killed.filter((each) => each.last_at >= oldest).map((each) => ({
    seq: each.run_id,
    at: each.last_at,
    kind: "killed",
    message: `Process ${each.pid} on ${each.host} ended without a report: it was killed, or its machine failed.`,
    remedy: "The next start continues after the last completed checkpoint.",
    error: `run ${each.run_id}`,
    checkpoint_id: null,
  }));
  return [...pages.shown, ...of].sort((one, other) => other.at - one.at);
}

function event(each) {
  const tone = each.kind === "restart" ? "" : ["gap", "mended", "reset", "repair", "away", "joined"].includes(each.kind) ? "warn" : "bad";
  return h(
    "li",
    { "data-key": each.seq },
    h("span", { class: "soft" }, timeCell(each.at)),
    h("span", null, h("span", { class: `badge ${tone}` }, each.kind)),
    h(
      "div",
      null,
      h("p", null, each.message),
      each.remedy ? h("p", { class: "soft" }, each.remedy) : null,
      each.error || each.checkpoint_id !== null
        ? h("p", { class: "soft" }, [each.error, each.checkpoint_id === null ? "" : `at checkpoint ${each.checkpoint_id}`].filter(Boolean).join(", "))
        : null,
    ),
  );
}

function aborted(key) {
  const columns = [["aborted", "tight"], ["checkpoint", "number"], ["epoch, try", "tight wide"], ["why", "name"]];
  return table("Aborted tries, newest first", columns, tries.map((each) => [
    timeCell(each.aborted_at), h("a", { href: `#/${key}/checkpoints/${each.checkpoint_id}/${each.incarnation}` }, each.checkpoint_id),
    `${each.epoch}, ${each.attempt}`, `${each.error}: ${each.reason}`,
  ]));
}

function processes(overview) {
  if (!runs.length) return quiet("It has not run yet.");
  const columns = [["run", "tight"], ["process", "name wide"], ["version", "wide"], ["started", "tight"], ["for", "number wide"], ["ended", "tight"]];
  return table("Runs", columns, runs.map((each) => [
    h("code", null, each.run_id), `${each.pid} on ${each.host}`, each.version, timeCell(each.started_at),
    each.ended_at === null ? format.none : format.span(each.ended_at - each.started_at), each.ended ?? stillThere(each, overview),
  ]));
}

function stillThere({ run_id }, overview) {
  if (overview?.is_running && overview.run?.run_id === run_id) return h("span", { class: "badge good" }, "runs");
  return h("span", { class: "soft" }, "it has not said so");
}

export function left() {
  pages.forget();
  runs = null;
  tries = [];
  killed = [];
}
