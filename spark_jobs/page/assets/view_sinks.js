// What is written, how far each sink is, and what it holds prepared.

import { get } from "./api.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { figure, section, table, timeCell, waiting } from "./parts.js";

let sinks = null;
let held = null; // what they said, or what kept them from it
let asking = null; // the question that is under way

export async function load(key) {
  const found = await get(`pipelines/${key}/sinks`);
  return () => ({ sinks } = found);
}

export function render({ key, refresh }) {
  if (!sinks) return [waiting()];
  return [
    section("Sinks", null, sinks.map(sink)),
    section(
      "Held by the sinks",
      h("button", { type: "button", disabled: asking !== null, onclick: () => ask(key, refresh) }, asking ? "Asking …" : "Ask the sinks"),
      transactions(),
    ),
  ];
}

function sink(each) {
  const behind = each.backlog_checkpoints;
  return h(
    "section",
    { class: "sink", "data-key": each.name },
    h(
      "div",
      null,
      h("h3", null, each.name),
      h("p", { class: "soft" }, h("span", { class: "badge" }, each.connector), " ", h("span", { class: "badge" }, each.variant), each.is_dead_letter ? [" ", h("span", { class: "badge warn" }, "dead letters")] : null),
      h("p", null, h("code", null, each.where)),
      h("p", { class: "soft" }, each.promise, "; visible ", each.visible),
    ),
    h(
      "dl",
      { class: "figures" },
      figure(each.is_dead_letter ? "Dead letters" : "Rows", format.short(each.rows), `in ${format.count(each.checkpoints)} checkpoints`),
      figure("Size", format.bytes(each.bytes)),
      figure("Backlog", format.count(behind), behind ? `${format.count(each.backlog_rows)} rows, ${format.bytes(each.backlog_bytes)}` : "nothing waits", behind ? "warn" : ""),
      figure("Committed", each.committed_at === null ? format.none : format.clock(each.committed_at), each.committed_at === null ? "" : `on ${format.day(each.committed_at)}`),
    ),
  );
}

async function ask(key, refresh) {
  const own = (asking = {});
  refresh();
  const answer = await get(`pipelines/${key}/transactions`).catch((error) => ({ problem: [error.message, error.remedy].filter(Boolean).join(": ") }));
  if (asking !== own) return; // somebody looks at another pipeline by now
  held = answer;
  asking = null;
  refresh();
}

function transactions() {
  if (!held) return h("p", { class: "soft" }, "Connects to every sink, and lists prepared transactions and segments that wait. Changes nothing.");
  if (held.problem) return h("p", { class: "bad" }, held.problem);
  const at = h("p", { class: "soft" }, `at ${format.time(held.asked_at)}`);
  if (!held.transactions.length) return [h("p", null, "No sink holds anything prepared."), at];
  const columns = [["sink", "name"], ["checkpoint", "number"], ["rows", "number"], ["decided", "tight wide"], ["then", "tight"], ["why", "name wide"], ["id", "name wide"]];
  return [
    table("Prepared", columns, held.transactions.map((each) => [
      each.sink, format.count(each.checkpoint_id), format.count(each.rows), timeCell(each.decided_at), each.then, each.why, h("code", null, each.id),
    ])),
    at,
  ];
}

export function left() {
  sinks = held = asking = null;
}
