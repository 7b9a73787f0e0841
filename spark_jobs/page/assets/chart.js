// A line chart in SVG: axes with units, and under the pointer or the arrow keys the values of that moment.

import { h } from "./dom.js";
import * as format from "./format.js";

const HEIGHT = 190;
const MARGIN = { left: 50, right: 6, top: 8, bottom: 22 };
const SHOWN_GAP = 3; // so many buckets without a value do not break a line
const STEPS_S = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** What all charts show under the pointer: the same moment. */
let moment = null;
const charts = new Set();

/**
 * A chart that is told new values by `update(series, chart)`; `unit` writes one value.
 * `names`: what each line is called, the first one being the chart's own; `least`: what its axis reaches at least.
 */
export function lineChart(title, unit, names, least) {
  const svg = h("svg", { role: "img", tabindex: "0", height: HEIGHT });
  const tip = h("div", { class: "tip", hidden: true });
  const element = h("figure", { class: "chart" }, h("div", { class: "head" }, h("h3", null, title), h("p", null)), svg, tip);
  let shown = { series: { since: 0, width_s: 1, buckets: 0, checkpoints: 0 }, lines: [] };
  let scale = null;

  function update(series, chart) {
    shown = { series, lines: chart ? chart.lines : [] };
    draw();
  }

  function draw() {
    const width = svg.clientWidth || 320;
    const { series, lines } = shown;
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const values = lines.flatMap((line) => line.values).filter((value) => value !== null);
    const ticks = ticksUpTo(Math.max(...values, least));
    const top = ticks.at(-1);
    const right = width - MARGIN.right;
    const bottom = HEIGHT - MARGIN.bottom;
    scale = {
      x: (at) => MARGIN.left + ((at + 0.5) / Math.max(series.buckets, 1)) * (right - MARGIN.left),
      y: (value) => bottom - (value / top) * (bottom - MARGIN.top),
      at: (x) => Math.round(((x - MARGIN.left) / (right - MARGIN.left)) * series.buckets - 0.5),
    };
    const parts = ticks.map((tick) => [
      h("line", { class: "grid", x1: MARGIN.left, x2: right, y1: scale.y(tick), y2: scale.y(tick) }),
      h("text", { class: "axis", x: MARGIN.left - 8, y: scale.y(tick) + 4, "text-anchor": "end" }, plain(unit(tick))),
    ]);
    parts.push(timeAxis(series, right));
    if (values.length === 0) {
      parts.push(h("text", { class: "empty", x: (MARGIN.left + right) / 2, y: HEIGHT / 2, "text-anchor": "middle" }, series.checkpoints ? "not measured in this time" : "no checkpoint in this time"));
    }
    [...lines].reverse().forEach((line) => {
      const second = line === lines[0] ? "" : " second";
      const runs = runsOf(line.values);
      if (!second) runs.filter((run) => run.length > 1).forEach((run) => parts.push(h("path", { class: "area", d: areaOf(run, scale, bottom) })));
      runs.forEach((run) => parts.push(run.length > 1 ? h("path", { class: `line${second}`, d: pathOf(run, scale) }) : h("circle", { class: `dot${second}`, cx: scale.x(run[0][0]), cy: scale.y(run[0][1]), r: 1.8 })));
    });
    svg.replaceChildren(...parts.flat(Infinity));
    const last = lines[0]?.values.findLast((value) => value !== null);
    svg.setAttribute("aria-label", `${title}: ${values.length === 0 ? "no values" : `${unit(last)} lately, at most ${unit(Math.max(...values))}`}. Arrow keys show single values.`);
    element.querySelector(".head p").replaceChildren(...legend(lines));
    mark();
  }

  /** What each line is, and its newest value. */
  function legend(lines) {
    const newest = lines.map((line) => line.values.findLast((value) => value !== null));
    return lines.filter((_, which) => newest[which] !== undefined).map((_, which) => h("span", { class: which ? "second" : "first" }, h("i", null), names[which], " ", h("b", null, unit(newest[which]))));
  }

  function timeAxis(series, right) {
    const span = series.buckets * series.width_s;
    const room = Math.max(Math.floor((right - MARGIN.left) / 76), 1);
    const step = STEPS_S.find((each) => span / each <= room) ?? STEPS_S.at(-1);
    const offset = new Date(series.since * 1000).getTimezoneOffset() * 60;
    const labels = [];
    for (let at = Math.ceil((series.since - offset) / step) * step + offset; at < series.since + span; at += step) {
      const x = scale.x((at - series.since) / series.width_s - 0.5);
      if (x < MARGIN.left + 14 || x > right - 14) continue;
      const when = new Date(at * 1000);
      const text = step >= 86400 ? `${when.getDate()} ${when.toLocaleString("en", { month: "short" })}` : `${String(when.getHours()).padStart(2, "0")}:${String(when.getMinutes()).padStart(2, "0")}`;
      labels.push(h("text", { class: "axis", x, y: HEIGHT - 5, "text-anchor": "middle" }, text));
    }
    return labels;
  }

  /** The moment that is looked at, if there is one. */
  function mark() {
    svg.querySelectorAll(".mark").forEach((each) => each.remove());
    const { series, lines } = shown;
    const at = moment === null ? -1 : Math.round((moment - series.since) / series.width_s);
    tip.hidden = !(at >= 0 && at < series.buckets);
    if (tip.hidden) return;
    const x = scale.x(at);
    svg.append(h("line", { class: "cross mark", x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
    lines.forEach((line, which) => {
      const value = line.values[at];
      if (value !== null) svg.append(h("circle", { class: `dot mark${which ? " second" : ""}`, cx: x, cy: scale.y(value), r: 3 }));
    });
    tip.replaceChildren(
      h("div", { class: "soft" }, format.time(series.since + at * series.width_s)),
      ...lines.map((line, which) => h("div", null, h("span", { class: "soft" }, names[which]), h("span", null, unit(line.values[at] ?? null)))),
    );
    const room = element.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.min(Math.max(x < element.clientWidth / 2 ? x + 10 : x - tip.offsetWidth - 10, 0), Math.max(room, 0))}px`;
  }

  function look(at) {
    const { series } = shown;
    moment = at === null ? null : series.since + Math.min(Math.max(at, 0), series.buckets - 1) * series.width_s;
    charts.forEach((chart) => chart.mark());
  }

  svg.onpointermove = (event) => look(scale.at(event.clientX - svg.getBoundingClientRect().left));
  svg.onpointerleave = () => look(null);
  svg.onblur = () => look(null);
  svg.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const { series } = shown;
    const now = moment === null ? series.buckets : Math.round((moment - series.since) / series.width_s);
    look(now + step);
  };
  const own = { mark };
  const resized = new ResizeObserver(draw);
  return {
    element,
    update,
    mount() {
      charts.add(own);
      resized.observe(svg);
    },
    unmount() {
      charts.delete(own);
      resized.disconnect();
    },
  };
}

/** Four or fewer round steps from 0 to what covers the largest value. */
function ticksUpTo(largest) {
  const rough = largest / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough - 1e-12);
  return [0, 1, 2, 3, 4].map((each) => each * step).filter((tick, at, all) => at === 0 || all[at - 1] < largest);
}

/** A round value without the zeros that say nothing: 2 s, not 2.00 s. */
function plain(text) {
  return text.replace(/\.0+(?= |$)/, "").replace(/(\.\d*[1-9])0+(?= |$)/, "$1");
}

/** Stretches of [bucket, value] without a long gap. */
function runsOf(values) {
  const runs = [];
  let last = -Infinity;
  values.forEach((value, at) => {
    if (value === null) return;
    if (at - last > SHOWN_GAP) runs.push([]);
    runs.at(-1).push([at, value]);
    last = at;
  });
  return runs;
}

function pathOf(run, scale) {
  return run.map(([at, value], n) => `${n ? "L" : "M"}${scale.x(at).toFixed(1)} ${scale.y(value).toFixed(1)}`).join("");
}

function areaOf(run, scale, bottom) {
  return `${pathOf(run, scale)}L${scale.x(run.at(-1)[0]).toFixed(1)} ${bottom}L${scale.x(run[0][0]).toFixed(1)} ${bottom}Z`;
}
