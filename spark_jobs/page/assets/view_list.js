// All pipelines of this server.

import { h } from "./dom.js";
import { section } from "./parts.js";

export function render({ pipelines }) {
  return [
    section(
      "Pipelines",
      null,
      h("div", { class: "list" }, pipelines.map((each) =>
        h("a", { href: `#/${each.key}/overview` }, h("h3", null, each.name), h("span", { class: `state ${each.state.replace(" ", "-")}` }, each.state)),
      )),
    ),
  ];
}
