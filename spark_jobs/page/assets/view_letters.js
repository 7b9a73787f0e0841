// Dead letters: browsed with a filter, one with its contents, and sent once more.

import { get, post, Refused } from "./api.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { quiet, section, table, timeCell } from "./parts.js";
import { dialog, note } from "./steer.js";

const PATIENCE_MS = 60_000; // a service is asked

let found = null; // the answer with the newest ones
let problem = ""; // why there is none
let reading = null; // what is under way
let payload = null; // {id, …} or {id, problem}
let fetching = null; // the id whose payload is under way
let chosen = new Set();
const filter = { text: "", source: "", sink: "" };

export async function load() {
  return () => null; // services are asked once, and when a button says so: see `read`
}

export function render({ key, rest: [id], refresh }) {
  if (!found && !problem && !reading) read(key, refresh);
  if (id) return [one(key, id, refresh)];
  const again = h("button", { type: "button", disabled: reading !== null, onclick: () => read(key, refresh) }, reading ? "Reading …" : "Read again");
  return [section("Dead letters", again, ...content(key, refresh))];
}

async function read(key, refresh) {
  const own = (reading = {});
  queueMicrotask(refresh);
  const answer = await get(`pipelines/${key}/dead-letters`, PATIENCE_MS).catch((error) => ({ problem: wordsOf(error) }));
  if (reading !== own) return; // another pipeline is shown by now
  reading = null;
  problem = answer.problem ?? "";
  found = answer.problem ? null : answer;
  if (found) chosen = new Set(found.letters.map(({ id }) => id).filter((id) => chosen.has(id)));
  refresh();
}

function wordsOf(error) {
  return error instanceof Refused ? [error.message, error.remedy].filter(Boolean).join("; ") : "The server does not answer.";
}

function content(key, refresh) {
  if (problem) return [h("p", { class: "bad" }, problem)];
  if (!found) return [quiet("Reading them from the service …")];
  if (found.where === null) return [quiet("The spec has no dead_letter.")];
  const about = h("p", { class: "soft" }, `The newest ${format.count(found.most)} at most, of `, h("code", null, found.where), ", at ", timeCell(found.read_at));
  if (!found.letters.length) return [about, quiet("There are no dead letters.")];
  const shown = found.letters.filter(isShown);
  return [about, filters(refresh), actions(key, shown, refresh), shown.length ? list(key, shown, refresh) : quiet("None fits the filter.")];
}

function isShown({ source, sink, error, topic, partition, offset }) {
  const text = `${error}\n${placeOf({ topic, partition, offset })}`.toLowerCase();
  return (!filter.source || source === filter.source) && (!filter.sink || sink === filter.sink) && text.includes(filter.text.toLowerCase());
}

const placeOf = ({ topic, partition, offset }) => (topic === null || partition === null || offset === null ? "not known" : `${topic}/${partition}/${offset}`);

function filters(refresh) {
  const set = (name) => (event) => {
    filter[name] = event.target.value;
    refresh();
  };
  const choice = (name, words, show = (each) => each) => {
    const values = [...new Set(found.letters.map((each) => each[name]).filter((each) => each !== null))].sort();
    return h("label", { class: "field" }, words, h("select", { onchange: set(name) }, h("option", { value: "" }, "all"), values.map((each) => h("option", { value: each, selected: each === filter[name] }, show(each)))));
  };
  return h(
    "form",
    { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    h("label", { class: "field" }, "Reason or place", h("input", { type: "search", value: filter.text, spellcheck: "false", autocomplete: "off", oninput: set("text") })),
    choice("source", "Source"),
    choice("sink", "Rejected by", rejecting),
  );
}

function actions(key, shown, refresh) {
  const able = shown.filter((each) => each.can_replay);
  const all = able.length > 0 && able.every(({ id }) => chosen.has(id));
  const toggle = () => {
    able.forEach(({ id }) => (all ? chosen.delete(id) : chosen.add(id)));
    refresh();
  };
  return h(
    "div",
    { class: "actions" },
    h("button", { type: "button", disabled: !able.length, onclick: toggle }, all ? "Choose none" : `Choose all ${format.count(able.length)} shown`),
    h("button", { type: "button", disabled: !chosen.size, onclick: () => confirm(key, refresh) }, chosen.size ? `Replay ${format.count(chosen.size)}` : "Replay"),
  );
}

function list(key, shown, refresh) {
  const columns = [["choose", "tight"], ["record", "name"], ["of", "name wide"], ["checkpoint", "number wide"], ["reason", "name"], ["size", "number wide"]];
  const toggle = (id) => (event) => {
    if (event.target.checked) chosen.add(id);
    else chosen.delete(id);
    refresh();
  };
  return table("Dead letters, newest first", columns, shown.map((each) => ({
    "data-key": each.id,
    cells: [
      h("input", { type: "checkbox", checked: chosen.has(each.id), disabled: !each.can_replay, "aria-label": `choose ${placeOf(each)}`, onchange: toggle(each.id) }),
      h("a", { href: `#/${key}/letters/${each.id}` }, placeOf(each)),
      of(each),
      format.count(each.checkpoint_id),
      h("span", { class: "foreign" }, each.error),
      format.bytes(each.value_bytes),
    ],
  })));
}

const rejecting = (sink) => (sink.startsWith("step:") ? `rule of step ${sink.slice(5)}` : `sink ${sink}`);
const of = ({ source, sink }) => (sink !== null ? rejecting(sink) : `source ${source ?? "not known"}`);

function one(key, id, refresh) {
  const back = h("a", { href: `#/${key}/letters` }, "All dead letters");
  const letter = found?.letters.find((each) => each.id === id);
  if (!letter) return section("Dead letter", back, quiet(problem || (found ? "It is not among the newest any more." : "Reading …")));
  if (payload?.id !== id && fetching !== id) fetchPayload(key, id, refresh);
  const facts = [
    ["record", placeOf(letter)],
    ["of", of(letter)],
    ["checkpoint", h("a", { href: `#/${key}/checkpoints/${letter.checkpoint_id}` }, letter.checkpoint_id)],
    ["time of the record", letter.timestamp ?? format.none],
    ["reason", h("span", { class: "foreign" }, letter.error)],
  ];
  return h(
    "div",
    null,
    section(`Dead letter ${placeOf(letter)}`, back, h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
    payload?.id === id ? contents() : quiet("Reading its contents …"),
    letter.can_replay ? h("div", { class: "actions section" }, h("button", { type: "button", onclick: () => confirm(key, refresh, [id]) }, "Replay it")) : null,
  );
}

async function fetchPayload(key, id, refresh) {
  fetching = id;
  const answer = await get(`pipelines/${key}/dead-letters/${id}`, PATIENCE_MS).catch((error) => ({ id, problem: wordsOf(error) }));
  if (fetching !== id) return;
  fetching = null;
  payload = answer;
  refresh();
}

function contents() {
  if (payload.problem) return h("p", { class: "bad" }, payload.problem);
  const { key, value, headers } = payload;
  return h(
    "div",
    null,
    section("Value", size(value), block("value", value)),
    section("Key", size(key), block("key", key)),
    headers.length ? section("Headers", null, table("Headers", [["name", "name"], ["value", "name"]], headers.map((each) => [h("span", { class: "foreign" }, each.name), h("span", { class: "foreign" }, each.value === null ? "null" : (each.value.text ?? each.value.hex))]))) : null,
  );
}

function size(content) {
  return content === null ? null : h("p", null, [format.bytes(content.bytes), content.text === null ? "not text: hexadecimal digits" : "", content.is_cut ? "only the beginning" : ""].filter(Boolean).join(", "));
}

/** Whatever a record holds is text here; control characters come as escapes. */
function block(name, content) {
  if (content === null) return h("p", { class: "soft" }, "null");
  return h("pre", { class: "foreign", tabindex: "0", role: "region", "aria-label": `the ${name} of the record` }, content.text ?? content.hex);
}

function confirm(key, refresh, ids = [...chosen]) {
  const letters = found.letters.filter(({ id }) => ids.includes(id));
  const refusing = [...new Set(letters.map(({ sink }) => sink).filter((each) => each !== null))];
  dialog(
    `Replay ${letters.length === 1 ? "a dead letter" : `${format.count(letters.length)} dead letters`}?`,
    [
      h("p", null, "Their records are sent to their topics once more, each once. Other readers of the topics get them twice."),
      refusing.length ? h("p", { class: "warn" }, `Every sink gets the records whose rows were rejected (${refusing.map(rejecting).join(", ")}), also sinks that have their rows.`) : null,
    ],
    "Replay",
    () => replay(key, ids, refresh),
  );
}

async function replay(key, ids, refresh) {
  const told = note("replay: sending …");
  try {
    const { chosen: records, sent, before, missing } = await post(`pipelines/${key}/dead-letters/replay`, { ids }, PATIENCE_MS);
    const more = [before ? `${format.count(before)} had been sent before` : "", missing ? `${format.count(missing)} dead letters are not there any more` : ""];
    told.change(["replay: ", [`${format.count(sent)} of ${format.count(records)} records were sent`, ...more].filter(Boolean).join("; ")].join(""), false);
    ids.forEach((id) => chosen.delete(id));
    refresh();
  } catch (error) {
    told.change(`replay: ${wordsOf(error)}`, true);
  }
}

export function left() {
  found = reading = payload = fetching = null;
  problem = "";
  chosen = new Set();
  Object.assign(filter, { text: "", source: "", sink: "" });
}
