// Sources, steps and sinks as a graph, with the rows of the newest checkpoint; and the same as a table.

import { get } from "./api.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { quiet, section, table, timeCell, waiting } from "./parts.js";

const NODE = { width: 190, height: 62 };
const GAP = { x: 96, y: 26 };
const KINDS = { source: "source", step: "step", sink: "sink", "dead-letter": "dead letters", job: "job" };

let graph = null;

export async function load(key) {
  const found = await get(`pipelines/${key}/graph`);
  return () => (graph = found);
}

export function render({ key }) {
  if (!graph) return [waiting()];
  const { checkpoint_id: id } = graph;
  const aside = id === null ? h("p", null, "no checkpoint is completed yet") : h("p", null, "rows of ", h("a", { href: `#/${key}/checkpoints/${id}` }, `checkpoint ${id}`), ", decided ", timeCell(graph.decided_at));
  return [section("Graph", aside, drawing(), quiet("Between two steps Spark counts no rows.")), section("From, to", null, edges()), section("Parts", null, parts())];
}

/** Left to right: each node is one column behind its last input, sinks are in the last column. */
function drawing() {
  const places = placed(graph.nodes, graph.edges);
  const all = [...places.values()];
  const width = Math.max(...all.map(({ x }) => x)) + NODE.width;
  const height = Math.max(...all.map(({ y }) => y)) + NODE.height;
  const ways = graph.edges.map((edge) => ({ edge, from: places.get(edge.source), to: places.get(edge.target) })).filter(({ from, to }) => from && to);
  return h(
    "div",
    { class: "scroll graph", "aria-hidden": "true" }, // the tables below have the same
    h(
      "div",
      { class: "canvas", style: { width: `${width}px`, height: `${height}px` } },
      h("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, ways.map(({ edge, from, to }) => h("path", { class: `edge is-${kindOf(edge.target)}`, d: curve(from, to) }))),
      ways.map(({ edge, from, to }) => label(edge, from, to)),
      graph.nodes.map((node) => box(node, places.get(node.name))),
    ),
  );
}

const kindOf = (name) => graph.nodes.find((each) => each.name === name).kind;

function placed(nodes, edges) {
  const depths = new Map();
  for (const { name, kind } of nodes) {
    const inputs = edges.filter((each) => each.target === name).map((each) => depths.get(each.source) ?? 0);
    depths.set(name, kind === "source" || kind === "job" || !inputs.length ? 0 : Math.max(...inputs) + 1);
  }
  const last = Math.max(...depths.values());
  const columns = new Map();
  const places = new Map();
  for (const { name, kind } of nodes) {
    const depth = kind === "sink" || kind === "dead-letter" ? last : depths.get(name);
    const row = columns.get(depth) ?? 0;
    columns.set(depth, row + 1);
    places.set(name, { x: depth * (NODE.width + GAP.x), y: row * (NODE.height + GAP.y) });
  }
  return places;
}

function ends(from, to) {
  return [from.x + NODE.width, from.y + NODE.height / 2, to.x, to.y + NODE.height / 2];
}

function curve(from, to) {
  const [x1, y1, x2, y2] = ends(from, to);
  const bend = Math.max((x2 - x1) / 2, 20);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

/** Near the target: there edges of one node have parted. */
function label(edge, from, to) {
  if (edge.rows === null) return null;
  const [, , x2, y2] = ends(from, to);
  return h("div", { class: "rows", style: { right: `calc(100% - ${x2 - 6}px)`, top: `${y2 - 20}px` } }, format.short(edge.rows));
}

function box(node, { x, y }) {
  return h(
    "div",
    { class: `node is-${node.kind}`, "data-key": node.name, title: `${node.name}\n${node.about}`, style: { left: `${x}px`, top: `${y}px`, width: `${NODE.width}px`, height: `${NODE.height}px` } },
    h("b", null, node.name),
    h("span", { class: behindTone(node) }, [KINDS[node.kind], behind(node)].filter(Boolean).join(", ")),
  );
}

function behind({ kind, behind: value }) {
  if (!value) return "";
  return kind === "source" ? `lag ${format.short(value)}` : `${format.count(value)} wait`;
}

const behindTone = (node) => (node.behind && node.kind !== "source" ? "warn" : "soft");

function edges() {
  const columns = [["from", "name"], ["to", "name"], ["rows", "number"]];
  return table("Rows of the newest checkpoint", columns, graph.edges.map((each) => [each.source, each.target, format.count(each.rows)]));
}

function parts() {
  const columns = [["name", "name"], ["kind", "tight"], ["place", "name wide"], ["rows", "number"], ["behind", "tight"]];
  return table("Sources, steps and sinks", columns, graph.nodes.map((each) => [each.name, h("span", { class: `badge ${each.kind === "dead-letter" ? "warn" : ""}` }, KINDS[each.kind]), each.about, format.count(each.rows), behind(each) || format.none]));
}

export function left() {
  graph = null;
}
