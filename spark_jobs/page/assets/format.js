// Figures for people: always as wide as the ones before them, as far as that goes.

const whole = new Intl.NumberFormat("en");
const DASH = "–";

export const none = DASH;

/** 12,345 */
export function count(value) {
  return value === null || value === undefined ? DASH : whole.format(Math.round(value));
}

/** An offset as 12,345, any other position as JSON. */
export function position(value) {
  return typeof value === "number" ? whole.format(value) : JSON.stringify(value);
}

/** 12.3 k */
export function short(value) {
  if (value === null || value === undefined) return DASH;
  const [size, unit] = value >= 1e9 ? [1e9, " G"] : value >= 1e6 ? [1e6, " M"] : value >= 1e4 ? [1e3, " k"] : [1, ""];
  const number = value / size;
  return `${number >= 100 || (size === 1 && number >= 10) || Number.isInteger(number) ? whole.format(Math.round(number)) : number.toFixed(1)}${unit}`;
}

/** 0.25 %, < 0.01 %, 12.3 %, of a share */
export function percent(share) {
  if (!Number.isFinite(share)) return DASH;
  const value = share * 100;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return `${value < 10 ? value.toFixed(2) : value.toFixed(1)} %`;
}

/** 340 ms, 1.24 s, 3 min 5 s */
export function seconds(value) {
  if (value === null || value === undefined) return DASH;
  if (value === 0) return "0 s";
  if (value < 0.001) return "< 1 ms";
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 59.95) return `${value < 10 ? value.toFixed(2) : value.toFixed(1)} s`;
  return span(value);
}

/** 5 s, 3 min 5 s, 2 h 10 min, 4 d 3 h */
export function span(value) {
  if (value === null || value === undefined) return DASH;
  const left = Math.max(Math.round(value), 0);
  if (left < 60) return `${left} s`;
  if (left < 3600) return `${Math.floor(left / 60)} min ${left % 60} s`;
  if (left < 86400) return `${Math.floor(left / 3600)} h ${Math.floor((left % 3600) / 60)} min`;
  return `${Math.floor(left / 86400)} d ${Math.floor((left % 86400) / 3600)} h`;
}

/** 1.2 MB */
export function bytes(value) {
  if (value === null || value === undefined) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

const pad = (number) => String(number).padStart(2, "0");

/** 2 Mar, or 2 Mar 2025 in another year. By the browser's zone. */
export function day(at) {
  const when = new Date(at * 1000);
  const year = when.getFullYear() === new Date().getFullYear() ? "" : ` ${when.getFullYear()}`;
  return `${when.getDate()} ${when.toLocaleString("en", { month: "short" })}${year}`;
}

/** 14:03:09. By the browser's zone. */
export function clock(at) {
  const when = new Date(at * 1000);
  return [when.getHours(), when.getMinutes(), when.getSeconds()].map(pad).join(":");
}

/** 2 Mar 14:03:09 */
export function time(at) {
  return at === null || at === undefined ? DASH : `${day(at)} ${clock(at)}`;
}

/** For a tooltip. */
export function exact(at) {
  return at === null || at === undefined ? "" : new Date(at * 1000).toISOString();
}
