// The spec that is in force.

import { get } from "./api.js";
import { h } from "./dom.js";
import { section, waiting } from "./parts.js";

let text = null;

export async function load(key) {
  const found = await get(`pipelines/${key}/spec`);
  return () => ({ text } = found);
}

export function render() {
  if (text === null) return [waiting()];
  return [section("Spec", h("p", null, "with every default; secrets are hidden"), h("pre", { tabindex: "0", role: "region", "aria-label": "the spec as YAML" }, text.trimEnd().split("\n").map(line)))];
}

function line(source) {
  const found = /^(\s*(?:- )?)([^\s:'"][^:]*)(:)(?=\s|$)(.*)$/.exec(source);
  if (!found) return [source, "\n"];
  const [, indent, key, colon, value] = found;
  return [indent, h("span", { class: "key" }, key), colon, value.includes("***") ? h("span", { class: "mask" }, value) : value, "\n"];
}

export function left() {
  text = null;
}
