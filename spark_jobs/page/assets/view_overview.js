// How the pipeline stands now, and did in the last hours.

import { get } from "./api.js";
import { lineChart } from "./chart.js";
import { h } from "./dom.js";
import * as format from "./format.js";
import { figure, place, section, stateTable, table, timeCell, waiting } from "./parts.js";

const RANGES = [
  ["15 min", 900],
  ["1 h", 3600],
  ["6 h", 21600],
  ["24 h", 86400],
];

const charts = {
  rate: lineChart("Throughput", (value) => (value === null ? format.none : `${format.short(value)}/s`), ["records", "rows"], 4),
  lag: lineChart("Lag", format.short, ["records"], 4),
  duration: lineChart("Duration", format.seconds, ["mean", "longest"], 0.01),
};
let range = 900;
let series = null;

export async function load(key) {
  const since = Math.floor(Date.now() / 1000) - range;
  const found = await get(`pipelines/${key}/series?metric=rate&metric=lag&metric=duration&since=${since}&buckets=72`);
  return () => (series = found);
}

export function render({ overview, refresh }) {
  if (!overview) return [waiting()];
  return [
    h("p", { class: "promise" }, overview.guarantee),
    h("dl", { class: "figures" }, figures(overview)),
    inProgress(overview),
    section(
      "Over time",
      h(
        "div",
        { class: "range", role: "group", "aria-label": "time that the charts show" },
        RANGES.map(([text, seconds]) =>
          h("button", { type: "button", "aria-pressed": String(seconds === range), onclick: () => choose(seconds, refresh) }, text),
        ),
      ),
      h("div", { class: "charts" }, Object.keys(charts).map((name) => place(`chart-${name}`))),
    ),
    overview.withheld.length ? withheld(overview) : null,
    overview.state_size?.by_operator.length ? section("State", h("p", null, `after checkpoint ${overview.state_size.checkpoint_id}`), stateTable(overview.state_size.by_operator)) : null,
    h("div", { class: "split section" }, lag(overview), run(overview)),
  ];
}

export function rendered(root) {
  for (const [name, chart] of Object.entries(charts)) {
    const at = root.querySelector(`[data-key="chart-${name}"]`);
    if (at && chart.element.parentNode !== at) {
      at.append(chart.element);
      chart.mount();
    }
    if (series) chart.update(series, series.charts.find((each) => each.metric === name));
  }
}

export function left() {
  Object.values(charts).forEach((chart) => chart.unmount());
  series = null;
}

function choose(seconds, refresh) {
  range = seconds;
  refresh();
}

function lagAge({ lag_unknown, lag_measured, lag_age_s }) {
  if (lag_age_s === null) return "not measured";
  const age = `${format.span(lag_age_s)} ago`;
  return lag_unknown ? `${format.short(lag_measured)} ${age}` : `measured ${age}`;
}

function figures(overview) {
  const { throughput, lag_records, lag_unknown, last, last_duration_s, head, totals, now } = overview;
  const behind = head?.waiting ?? 0;
  return [
    figure("Throughput, records/s", format.short(throughput.records_per_s), `${format.short(throughput.rows_per_s)} rows/s, ${format.bytes(throughput.bytes_per_s)}/s`),
    figure("Lag, records", lag_unknown ? "unknown" : format.short(lag_records), lagAge(overview), lag_unknown ? "warn" : ""),
    figure("Checkpoint", last ? `${last.checkpoint_id}` : format.none, last ? `decided ${format.span(now - last.decided_at)} ago` : "none yet"),
    figure("Duration", format.seconds(last_duration_s), "of the last one"),
    figure("Waiting", format.count(behind), behind ? "not yet in every sink" : "all are committed", behind ? "warn" : ""),
    figure("Records", format.short(totals.records), `in ${format.count(totals.checkpoints)} checkpoints`),
  ];
}

const PHASE_NAMES = { idle: "none is in progress", start: "start", tasks: "tasks", decide: "decide", wait: "wait", commit: "commit" };

/** The checkpoint in progress: always the same lines, so that nothing moves. */
function inProgress({ is_running, is_here, in_progress: found, run_page, now, state_size }) {
  if (!is_running) return null;
  if (!found && is_here) return section("In progress", null, h("p", { class: "soft" }, "No query runs at this moment."));
  if (!found) return section("In progress", null, h("p", { class: "soft" }, "Known to the page of the run only", run_page ? [": ", webLink(run_page)] : ", which `eos run --ui` serves", "."));
  const { checkpoint_id: id, phase, since, started_at, due_at, tasks, waits_for } = found;
  const facts = [
    ["checkpoint", id === null ? "none" : `${id}, for ${format.span(now - started_at)}`],
    ["phase", id === null ? PHASE_NAMES[phase] : `${PHASE_NAMES[phase]}, for ${format.span(now - since)}`],
    ["waits for", due_at === null ? waits_for : `${waits_for}, in ${format.span(due_at - now)}`],
    ["tasks", tasks ? [`${format.count(tasks.done)} of ${format.count(tasks.total)} done, ${format.count(tasks.running)} run${tasks.failed ? `, ${format.count(tasks.failed)} failed` : ""}`, meter(tasks.done / tasks.total)] : format.none],
  ];
  if (state_size) {
    facts.push(["watermark", state_size.watermark === null ? format.none : timeCell(state_size.watermark)]);
    facts.push(["state", `${format.count(state_size.rows)} rows, ${format.bytes(state_size.memory_bytes)} in memory, ${format.count(state_size.operators)} stateful operators`]);
  }
  return section("In progress", null, h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])));
}

const meter = (share) => h("div", { class: "meter" }, h("i", { style: { width: `${Math.min(share, 1) * 100}%` } }));

/** A link, if it is one of the web: whatever else the text says stays text. */
function webLink(url) {
  return /^https?:\/\//.test(url) ? h("a", { href: url, rel: "noopener noreferrer", target: "_blank" }, url) : h("code", null, url);
}

function withheld({ withheld: splits, withheld_records, now }) {
  const oldest = splits.reduce((one, other) => (one.since <= other.since ? one : other));
  const rows = splits.map((each) => [
    each.source,
    each.split,
    format.position(each.begin),
    format.position(each.end),
    format.count(each.records),
    `${each.reason}, since ${format.span(now - each.since)}`,
  ]);
  const columns = [["source", "name wide"], ["split", "name"], ["from offset", "number wide"], ["end", "number wide"], ["records", "number"], ["waiting for", "name"]];
  return section(
    "Records that cannot be read yet",
    h("p", { class: "warn" }, `${format.count(withheld_records)} records: waiting for ${oldest.reason} since ${format.time(oldest.since)}`),
    table("Records that cannot be read yet", columns, rows),
  );
}

function lag({ lag: splits, lag_unknown, lag_at }) {
  const largest = Math.max(...splits.map((each) => each.records), 1);
  const rows = splits.map((each) => [
    each.source,
    each.split,
    format.position(each.position),
    format.position(each.end),
    h("span", null, format.count(each.records), meter(each.records / largest)),
  ]);
  const columns = [["source", "name wide"], ["split", "name"], ["next offset", "number wide"], ["end", "number wide"], ["lag", "number"]];
  const at = lag_at === null ? "" : `measured at ${format.time(lag_at)}`;
  return section(
    "Lag by partition",
    h("p", { class: lag_unknown ? "warn" : null }, lag_unknown ? `unknown: ${lag_unknown}${at && `; ${at}`}` : at),
    splits.length ? table("Lag by partition", columns, rows) : h("p", { class: "soft" }, "Not measured yet."),
  );
}

function run({ head, run: newest, totals, mode, interval_s, now, is_running, spark_ui }) {
  const facts = [
    ["mode", mode],
    ["interval", format.seconds(interval_s)],
    ["epoch", head ? String(head.epoch) : format.none],
    ["incarnation", head ? h("code", null, head.incarnation) : format.none],
    ["completed up to", head && head.completed >= 0 ? `checkpoint ${head.completed}` : format.none],
    ["committed up to", head && head.committed >= 0 ? `checkpoint ${head.committed}` : format.none],
    ["run", newest ? h("code", null, newest.run_id) : format.none],
    ["process", newest ? `${newest.pid} on ${newest.host}, eos ${newest.version}` : format.none],
    [is_running ? "up for" : "started", newest ? (is_running ? format.span(now - newest.started_at) : timeCell(newest.started_at)) : format.none],
    spark_ui ? ["Spark's UI", webLink(spark_ui)] : null,
    ["restarts, failures", `${format.count(totals.restarts)}, ${format.count(totals.failures)}`],
    ["aborted tries", format.count(totals.aborted)],
    ["bad records left out", totals.skipped ? `${format.count(totals.skipped)} (${format.percent(totals.skipped / totals.records)})` : "0"],
  ];
  return section("Run", null, h("dl", { class: "facts" }, facts.filter(Boolean).map(([name, value]) => [h("dt", null, name), h("dd", null, value)])));
}
