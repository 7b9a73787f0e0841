// The page: where one is, what is asked of the server every two seconds, and what is drawn of it.

import { get, hasToken, forgetToken, Refused, takeToken } from "./api.js";
import { h, markScrolling, show } from "./dom.js";
import * as format from "./format.js";
import { askForToken, buttons, dialog } from "./steer.js";
import * as checkpoints from "./view_checkpoints.js";
import * as failures from "./view_failures.js";
import * as graph from "./view_graph.js";
import * as letters from "./view_letters.js";
import * as list from "./view_list.js";
import * as log from "./view_log.js";
import * as overviewView from "./view_overview.js";
import * as sinks from "./view_sinks.js";
import * as spec from "./view_spec.js";

const EVERY_MS = 2000;
const KEYS = "eos.keys"; // whether single keys act: who speaks to the page may not want that
const TABS = [
  ["overview", "Overview", overviewView],
  ["checkpoints", "Checkpoints", checkpoints],
  ["graph", "Graph", graph],
  ["sinks", "Sinks", sinks],
  ["letters", "Dead letters", letters],
  ["failures", "Failures", failures],
  ["log", "Log", log],
  ["spec", "Spec", spec],
];

let pipelines = null;
let version = "";
let overview = null;
let trouble = null; // {since, text, isGone, isLocked}
let route = { key: null, tab: null, rest: [] };
let timer = 0;
let round = 0;

function readRoute() {
  const [key, tab, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const known = TABS.some(([name]) => name === tab);
  return { key: key || null, tab: known ? tab : "overview", rest: known ? rest : [] };
}

const viewOf = ({ key, tab }) => (key === null ? list : TABS.find(([name]) => name === tab)[2]);

/** Ask the server for what is shown now, draw it, and come again. Only what the newest round has heard is taken. */
async function refresh() {
  clearTimeout(timer);
  const own = ++round;
  const at = route;
  draw();
  try {
    const found = await get("pipelines");
    if (own !== round) return;
    ({ pipelines, version } = found);
    if (at.key === null && pipelines.length === 1) {
      location.replace(`#/${pipelines[0].key}/overview`);
      return;
    }
    if (at.key !== null) {
      const [told, take] = await Promise.all([get(`pipelines/${at.key}`), viewOf(at).load(at.key, at.rest)]);
      if (own !== round) return;
      overview = told;
      take();
    }
    trouble = null;
  } catch (error) {
    if (own !== round) return;
    noteTrouble(error);
  }
  draw();
  timer = setTimeout(() => (document.hidden ? null : refresh()), EVERY_MS);
}

function noteTrouble(error) {
  const refused = error instanceof Refused;
  const isLocked = refused && error.status === 401;
  if (isLocked && (hasToken() || trouble === null)) {
    forgetToken();
    askForToken(refresh);
  }
  const text = refused ? [error.message, error.remedy].filter(Boolean).join("; ") : "The server does not answer.";
  trouble = { since: trouble?.since ?? Date.now() / 1000, text, isGone: !refused, isLocked };
}

function draw() {
  const isGone = trouble?.isGone === true;
  const context = { key: route.key, rest: route.rest, overview, pipelines, isGone, isLocked: trouble?.isLocked === true, refresh, go: (path) => (location.hash = `#/${path}`) };
  document.body.classList.toggle("gone", isGone);
  document.title = overview && route.key ? `${isGone ? "no answer" : overview.state} · ${overview.name} · eos` : "eos";
  drawHeader(context);
  drawBanner();
  const main = document.getElementById("main");
  if (route.key === null) show(main, pipelines && pipelines.length > 1 ? list.render(context) : []);
  else show(main, h("div", { "data-key": [route.key, route.tab, ...route.rest].join("/") }, viewOf(route).render(context)));
  viewOf(route).rendered?.(main);
  markScrolling(main);
}

function drawHeader(context) {
  const state = trouble?.isGone ? "gone" : overview?.state;
  const words = trouble?.isGone ? "no answer" : [overview?.state, overview?.detail].filter(Boolean).join(", ");
  const bar = h(
    "div",
    { class: "bar" },
    h(
      "div",
      { class: "title" },
      h("a", { class: "mark", href: "#/", "aria-label": "eos, all pipelines" }, h("img", { src: "icon.svg", width: 22, height: 22, alt: "" })),
      h("h1", null, route.key ? (overview?.name ?? "\u00a0") : `eos ${version}`),
      route.key && overview ? h("span", { class: `state ${state.replace(" ", "-")}`, role: "status" }, words) : null,
    ),
    h("div", { class: "actions" }, buttons(context)),
    h(
      "div",
      { class: "tools" },
      h("button", { type: "button", class: "plain", onclick: switchTheme }, isDark() ? "Light" : "Dark"),
      h("button", { type: "button", class: "plain", onclick: help, "aria-label": "keyboard shortcuts" }, "?"),
    ),
  );
  const tabs = h(
    "nav",
    { class: "tabs", "aria-label": "views" },
    route.key
      ? TABS.map(([name, text]) => h("a", { href: `#/${route.key}/${name}`, "aria-current": name === route.tab ? "page" : null, "data-text": text }, text))
      : null,
  );
  show(document.getElementById("header"), bar, tabs);
}

function drawBanner() {
  const banner = document.getElementById("banner");
  const lines = [];
  if (trouble) lines.push(trouble.isGone ? `${trouble.text} What is shown is of ${format.time(trouble.since)} and before; this page goes on asking.` : trouble.text);
  else overview?.problems.forEach((each) => lines.push([each.message, each.remedy].filter(Boolean).join("; ")));
  banner.classList.toggle("quiet", !trouble);
  show(banner, lines.map((line) => h("div", null, line)));
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("eos.theme", next);
  draw();
}

const keysAct = () => localStorage.getItem(KEYS) !== "off";

function help() {
  const keys = [
    ...TABS.map(([, text], at) => [String(at + 1), text]),
    ["Esc", "back from one entry to the list"],
    ["d", "dark or light"],
    ["← →", "values of a chart that has the focus"],
    ["?", "this list"],
  ];
  const acting = h("input", { type: "checkbox", checked: keysAct(), onchange: () => localStorage.setItem(KEYS, acting.checked ? "on" : "off") });
  dialog("Keyboard", [h("dl", { class: "facts" }, keys.map(([key, words]) => [h("dt", null, h("kbd", null, key)), h("dd", null, words)])), h("p", null), h("label", null, acting, "Single keys act.")], "Close");
}

function onKey(event) {
  const isTyping = event.target.closest?.("input, select, textarea, dialog");
  if (!keysAct() || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const tab = TABS[Number(event.key) - 1];
  if (tab && route.key) location.hash = `#/${route.key}/${tab[0]}`;
  else if (event.key === "Escape" && route.rest.length) location.hash = `#/${route.key}/${route.tab}`;
  else if (event.key === "d") switchTheme();
  else if (event.key === "?") help();
}

function moved() {
  if (takeToken()) document.querySelectorAll("dialog").forEach((each) => each.close()); // what asks for it is answered
  const next = readRoute();
  if (viewOf(next) !== viewOf(route) || next.key !== route.key) viewOf(route).left?.();
  if (next.key !== route.key) overview = null;
  route = next;
  window.scrollTo(0, 0);
  refresh();
  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

takeToken();
route = readRoute();
document.getElementById("skip").onclick = (event) => {
  event.preventDefault(); // what stands behind # is a route
  document.getElementById("main").focus();
};
addEventListener("hashchange", moved);
addEventListener("keydown", onKey);
addEventListener("resize", () => markScrolling(document.getElementById("main")));
document.addEventListener("visibilitychange", () => document.hidden || refresh());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
refresh();
