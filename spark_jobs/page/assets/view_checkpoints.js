// The history of checkpoints, figures over many of them, and one in detail.

import { get, Refused } from "./api.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { Pages } from "./pages.js";
import { olderOnes, phaseBar, PHASES, phaseLegend, quiet, section, stateTable, table, timeCell, waiting } from "./parts.js";

const SUMMARY_MS = 10_000;

const pages = new Pages("checkpoints");
let summary = null;
let summaryAt = 0; // it is worth a look now and then
let detail = null;
let missing = null; // {id, text}: why there is no detail of it

export async function load(key, [id, incarnation]) {
  const which = incarnation ? `?incarnation=${encodeURIComponent(incarnation)}` : "";
  const isDue = Date.now() - summaryAt > SUMMARY_MS;
  const [newest, figures, one] = await Promise.all([
    get(`pipelines/${key}/checkpoints?limit=25`),
    isDue ? get(`pipelines/${key}/checkpoints/summary`) : summary,
    id ? get(`pipelines/${key}/checkpoints/${encodeURIComponent(id)}${which}`).catch((error) => notThere(error, id)) : {},
  ]);
  return () => {
    pages.newest(newest);
    summary = figures;
    if (isDue) summaryAt = Date.now();
    ({ detail = null, missing = null } = one.checkpoint ? { detail: one } : one);
  };
}

function notThere(error, id) {
  if (!(error instanceof Refused) || ![404, 422].includes(error.status)) throw error;
  return { missing: { id, text: error.message } };
}

export function render({ key, rest: [id], overview, refresh, go }) {
  const { shown } = pages;
  if (!shown) return [waiting()];
  if (id) return [one(key, id)];
  if (!shown.length) return [quiet(overview?.head?.completed >= 0 ? "Its history has none." : "No checkpoint is completed yet.")];
  const longest = Math.max(...shown.map((each) => total(each.phases)), 0.001);
  const columns = [
    ["checkpoint", "number tight"], ["decided", "tight"], ["duration", "number"], ["phases", ""], ["records", "number wide"],
    ["rows", "number"], ["size", "number wide"], ["lag", "number wide"], ["state", "tight wide"],
  ];
  const rows = shown.map((each) => ({
    "data-key": each.seq,
    class: "link",
    onclick: () => go(pathOf(key, each)),
    cells: [
      h("a", { href: `#/${pathOf(key, each)}`, "aria-label": `checkpoint ${each.checkpoint_id}` }, each.checkpoint_id),
      timeCell(each.decided_at),
      format.seconds(each.duration_s),
      phaseBar(each.phases, longest),
      format.count(each.records),
      format.count(each.rows),
      format.bytes(each.bytes),
      format.count(each.lag),
      stateOf(each),
    ],
  }));
  return [
    section("Summary", h("p", null, `of the newest ${format.count(summary.checkpoints)}`), figures()),
    section("History", phaseLegend(), table("Checkpoints, newest first", columns, rows)),
    olderOnes(pages, (before) => get(`pipelines/${key}/checkpoints?limit=100&before=${before}`), refresh),
  ];
}

function pathOf(key, { checkpoint_id, incarnation }) {
  return `${key}/checkpoints/${checkpoint_id}/${incarnation}`;
}

function total(phases) {
  return PHASES.reduce((sum, [name]) => sum + (phases[`${name}_s`] ?? 0), 0);
}

function stateOf({ is_committed, attempt, replayed, mode, skipped }) {
  return h(
    "span",
    null,
    !is_committed ? h("span", { class: "badge warn" }, "completed") : h("span", { class: "badge good" }, "committed"),
    attempt > 1 ? [" ", h("span", { class: "badge", title: "those before it were aborted" }, `try ${attempt}`)] : null,
    skipped ? [" ", h("span", { class: "badge warn", title: "bad records" }, `${format.count(skipped)} left out`)] : null,
    replayed ? [" ", h("span", { class: "badge" }, "replayed")] : null,
    mode === "at-least-once" ? [" ", h("span", { class: "badge" }, mode)] : null,
  );
}

function figures() {
  const columns = [["figure", "tight"], ["mean", "number wide"], ["p50", "number"], ["p95", "number"], ["p99", "number wide"], ["max", "number"]];
  const line = (name, found, write) => [h("span", { class: "soft" }, name), ...["mean", "p50", "p95", "p99", "max"].map((each) => write(found?.[each]))];
  return h(
    "div",
    { class: "split even" },
    table("Checkpoints", columns, [
      line("duration", summary.duration_s, format.seconds),
      line("records", summary.records, format.count),
      line("rows", summary.rows, format.count),
      line("size", summary.bytes, format.bytes),
    ]),
    table("Phases", [["phase", "tight"], ...columns.slice(1)], PHASES.map(([name]) => line(name, summary.phases[name], format.seconds))),
  );
}

function one(key, id) {
  const back = h("a", { href: `#/${key}/checkpoints` }, "All checkpoints");
  if (!detail || String(detail.checkpoint.checkpoint_id) !== id) return section(`Checkpoint ${id}`, back, quiet(missing?.id === id ? missing.text : "Loading …"));
  const found = detail.checkpoint;
  const facts = [
    ["state", stateOf(found)],
    ["started", timeCell(found.started_at)],
    ["decided", timeCell(found.decided_at)],
    ["committed everywhere", timeCell(found.committed_at)],
    ["duration", format.seconds(found.duration_s)],
    ["epoch, try", `${found.epoch}, ${found.attempt}`],
    ["records", format.count(found.records)],
    ["rows", format.count(found.rows)],
    ["bad records left out", format.count(found.skipped)],
    ["size", format.bytes(found.bytes)],
    ["lag", format.count(found.lag)],
    ["incarnation", h("code", null, found.incarnation)],
  ];
  return h(
    "div",
    null,
    section(`Checkpoint ${id}`, back, phaseBar(found.phases, Math.max(total(found.phases), 0.001), true), phaseLegend(found.phases)),
    h(
      "div",
      { class: "split section" },
      h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
      ranges(),
    ),
    section("Sinks", null, sinks(found)),
    detail.state.length ? section("State", h("p", null, "after this checkpoint"), stateTable(detail.state)) : null,
    detail.aborted.length ? section("Aborted tries", h("p", null, "Nothing of them is visible."), aborted()) : null,
    section("Acknowledgements", h("p", null, "one for each writer: a task's share for a sink"), acknowledgements()),
  );
}

function ranges() {
  if (!detail.ranges.length) return h("p", { class: "soft" }, "Its offsets are not kept any more.");
  const columns = [["split", "name"], ["offsets", "number"], ["records", "number"]];
  return table("Offsets", columns, detail.ranges.map((each) => [`${each.source}: ${each.split}`, `${format.position(each.start)} – ${format.position(each.end)}`, format.count(typeof each.end === "number" ? each.end - each.start : null)]));
}

function sinks(found) {
  const columns = [["sink", "name"], ["variant", "wide"], ["writers", "number wide"], ["rows", "number"], ["size", "number wide"], ["commit took", "number wide"], ["visible since", "tight"]];
  return table("Commits, sink by sink", columns, found.sinks.map((each) => [
    each.sink, each.variant || format.none, format.count(each.writers), format.count(each.rows), format.bytes(each.bytes), format.seconds(each.commit_s),
    each.committed_at === null && !found.is_committed ? h("span", { class: "badge warn" }, "waits") : timeCell(each.committed_at ?? found.committed_at),
  ]));
}

function aborted() {
  const columns = [["epoch, try", "tight"], ["aborted", "tight"], ["why", "name"]];
  return table("Aborted tries", columns, detail.aborted.map((each) => [
    `${each.epoch}, ${each.attempt}`, timeCell(each.aborted_at), `${each.error}: ${each.reason}`,
  ]));
}

function acknowledgements() {
  if (!detail.acknowledgements.length) return h("p", { class: "soft" }, "They are not kept any more.");
  const columns = [["sink", "name"], ["task", "number"], ["attempt", "number wide"], ["rows", "number"], ["size", "number wide"], ["read", "number wide"], ["write", "number wide"], ["prepare", "number wide"], ["acknowledged", "tight"]];
  return table("Acknowledgements, writer by writer", columns, detail.acknowledgements.map((each) => [
    each.sink, each.task, each.attempt, format.count(each.rows), format.bytes(each.bytes),
    format.seconds(each.read_s), format.seconds(each.write_s), format.seconds(each.prepare_s), timeCell(each.acknowledged_at),
  ]));
}

export function left() {
  pages.forget();
  summary = detail = null;
  summaryAt = 0;
  missing = null;
}
