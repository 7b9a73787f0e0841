// What several views show.

import { h } from "./dom.js";
import * as format from "./format.js";

export const PHASES = [
  ["plan", "newest offsets, and Spark's plan"],
  ["start", "permits, and the start of the tasks"],
  ["read", "sources are read, steps computed"],
  ["write", "rows go to the sinks"],
  ["prepare", "sinks hold them, invisible"],
  ["decide", "head says: completed"],
  ["wait", "sinks are busy with earlier checkpoints"],
  ["commit", "rows become visible"],
];

/** A labelled number. */
export function figure(label, value, more = "", tone = "") {
  return h(
    "div",
    { class: "figure" },
    h("dt", null, label),
    h("dd", { class: `value ${tone}` }, value),
    h("dd", { class: "more", title: more || null }, more || "\u00a0"),
  );
}

export function section(title, aside, ...content) {
  return h("section", { class: "section" }, h("div", { class: "head" }, h("h2", null, title), aside), content);
}

/** Columns: [heading, class]; rows: arrays of cells, or {cells, …attributes of the row}. */
export function table(caption, columns, rows) {
  return h(
    "div",
    { class: "scroll", "data-keep": "tabindex role aria-label", "data-label": caption },
    h(
      "table",
      null,
      h("caption", { class: "hidden" }, caption),
      h("thead", null, h("tr", null, columns.map(([heading, kind]) => h("th", { scope: "col", class: kind }, heading)))),
      h(
        "tbody",
        null,
        rows.map((row) => {
          const { cells, ...props } = Array.isArray(row) ? { cells: row } : row;
          return h("tr", props, cells.map((cell, at) => h("td", { class: columns[at][1] }, cell)));
        }),
      ),
    ),
  );
}

/** The phases of a checkpoint as one bar; `longest`: seconds that a whole bar stands for. */
export function phaseBar(phases, longest, tall = false) {
  const known = PHASES.map(([name], at) => [name, phases[`${name}_s`], at]).filter(([, value]) => value > 0);
  const words = known.map(([name, value]) => `${name} ${format.seconds(value)}`).join(", ");
  return h(
    "div",
    { class: `phases${tall ? " tall" : ""}`, role: "img", "aria-label": words || "not measured", title: words },
    known.map(([, value, at]) => h("i", { class: `phase-${at}`, style: { width: `${((value / longest) * 100).toFixed(2)}%` } })),
  );
}

export function phaseLegend(phases = null) {
  return h(
    "div",
    { class: "legend" },
    PHASES.map(([name, words], at) =>
      h("span", { title: words }, h("i", { class: `phase-${at}` }), name, phases ? ` ${format.seconds(phases[`${name}_s`])}` : null),
    ),
  );
}

/** What leads to the next older page of a list, while there is one. */
export function olderOnes(pages, ask, refresh) {
  if (pages.before === null) return null;
  const more = () => pages.more(ask).then(refresh, refresh); // where there is no answer, the refresh says why
  return h("div", { class: "older" }, h("button", { type: "button", onclick: more }, "Older ones"));
}

export function timeCell(at) {
  if (at === null || at === undefined) return h("span", null, format.none);
  return h("span", { class: "time", title: format.exact(at) }, h("span", null, format.day(at)), " ", h("span", null, format.clock(at)));
}

export function quiet(text) {
  return h("p", { class: "quiet-block" }, text);
}

/** What is put between two renderings, and belongs to whoever made it. */
export function place(key) {
  return h("div", { "data-key": key, "data-own": true });
}

/** Only while the first answer is under way. */
export const waiting = () => quiet("Loading …");

/** The state of each operator after a checkpoint. */
export function stateTable(operators) {
  const columns = [
    ["operator", "name"], ["step", "name"], ["rows", "number"], ["updated", "number wide"], ["removed", "number wide"],
    ["late rows dropped", "number wide"], ["memory", "number"], ["commit", "number"],
  ];
  return table("State by operator", columns, operators.map((each) => [
    `${each.number} ${each.operator}`, each.step || format.none, format.count(each.rows), format.count(each.updated),
    format.count(each.removed), format.count(each.dropped), format.bytes(each.memory_bytes), format.seconds(each.commit_ms / 1000),
  ]));
}
