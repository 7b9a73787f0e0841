// Asking something of the driver: confirmed where it cannot be taken back, and followed until it is answered.

import { forgetToken, get, hasToken, post, Refused, setToken } from "./api.js";
import { h, show } from "./dom.js";

const notes = [];
const NOTE_MS = 12_000;
const FOLLOW_MS = 700;

export function buttons({ key, overview, isGone, isLocked, refresh }) {
  const canSteer = key !== null && overview?.can_steer === true && !isGone;
  if (isLocked || (canSteer && !hasToken())) return [h("button", { type: "button", onclick: () => askForToken(refresh) }, "Unlock")];
  if (!canSteer) return [];
  return overview.actions.map((kind) => {
    const { ask = send, tone = "" } = ACTIONS[kind] ?? {};
    const text = kind[0].toUpperCase() + kind.slice(1);
    return h("button", { type: "button", class: tone, "data-key": kind, onclick: () => ask(overview, kind, undefined, refresh) }, text);
  });
}

/** Actions that are confirmed, or look different. The server says which ones there are: an unknown one is sent as it is. */
const ACTIONS = {
  restart: { ask: confirmRestart },
  stop: { ask: confirmStop, tone: "danger" },
};

async function send({ key }, kind, body, refresh) {
  const note = tell(`${kind}: asked …`);
  try {
    const asked = await post(`pipelines/${key}/${kind}`, body);
    await follow(key, asked, note, kind);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) {
      forgetToken();
      refresh();
    }
    const hasEnded = kind === "stop" && !(error instanceof Refused); // as was wished, and the page's server with it
    const words = error instanceof Refused ? [error.message, error.remedy].filter(Boolean).join("; ") : "the server does not answer";
    change(note, `${kind}: ${hasEnded ? "the run has ended; `eos ui` shows what it did" : words}`, !hasEnded);
  }
}

async function follow(key, asked, note, kind) {
  let state = asked;
  while (state.state === "waiting") {
    await new Promise((done) => setTimeout(done, FOLLOW_MS));
    state = await get(`pipelines/${key}/requests/${asked.id}`);
  }
  const words = { done: state.message || "done", refused: state.message, expired: "no answer" }[state.state];
  change(note, `${kind}: ${words}`, state.state !== "done");
}

function confirmRestart(overview, kind, _body, refresh) {
  const words = "It finishes the running checkpoint. Then the query starts again in the same process, as after a failure: connections, permits and Spark's plan are new.";
  dialog(`Restart ${overview.name}?`, [h("p", null, words)], "Restart", () => send(overview, kind, undefined, refresh));
}

function confirmStop(overview, kind, _body, refresh) {
  const now = h("input", { type: "checkbox", name: "now" });
  dialog(
    `Stop ${overview.name}?`,
    [
      h("p", null, "It finishes the running checkpoint, commits it everywhere, and ends. The next start goes on from there."),
      h("label", null, now, "Abort the running checkpoint instead; its records are read again by the next start."),
    ],
    "Stop",
    () => send(overview, kind, { now: now.checked }, refresh),
    "danger",
  );
}

export function askForToken(refresh) {
  const input = h("input", { type: "password", name: "token", autocomplete: "off", spellcheck: "false" });
  dialog(
    "The token of this page",
    [h("p", null, "It stands in the URL that eos has printed, behind #token=, or in the file that eos has named. It is kept until this tab is closed."), h("label", { class: "field" }, "Token", input)],
    "Unlock",
    () => {
      if (input.value.trim()) setToken(input.value.trim());
      refresh();
    },
  );
}

/** A modal question. Escape and Cancel leave everything as it is. */
export function dialog(title, content, yes, act, tone = "") {
  const element = h("dialog", { "aria-labelledby": "dialog-title" });
  const close = () => element.close();
  element.append(
    h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          close();
          act?.();
        },
      },
      h("h2", { id: "dialog-title" }, title),
      content,
      h("div", { class: "actions" }, act ? h("button", { type: "button", onclick: close }, "Cancel") : null, h("button", { type: "submit", class: `primary ${tone}` }, yes)),
    ),
  );
  element.onclose = () => element.remove();
  document.getElementById("dialogs").append(element);
  element.showModal();
}

/** Show a note; its `change` writes the outcome, which goes after some seconds. */
export function note(text) {
  const told = tell(text);
  return { change: (words, bad) => change(told, words, bad) };
}

function tell(text) {
  const note = { text, bad: false, key: String(Math.random()) };
  notes.push(note);
  drawNotes();
  return note;
}

function change(note, text, bad) {
  Object.assign(note, { text, bad });
  drawNotes();
  setTimeout(() => {
    notes.splice(notes.indexOf(note), 1);
    drawNotes();
  }, NOTE_MS);
}

function drawNotes() {
  show(document.getElementById("notes"), notes.map((note) => h("div", { class: `note${note.bad ? " bad" : ""}`, "data-key": note.key }, note.text)));
}
