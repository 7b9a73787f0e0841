// Elements from plain descriptions. Text only ever becomes a text node: whatever a name holds, it is shown, not read.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "text", "circle", "rect"]);

/** An element. `props`: attributes; `on…`: handlers; `style`: custom widths and places, set without a style attribute. */
export function h(tag, props, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "checked") element.checked = value; // the attribute means only the beginning
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

const HANDLERS = ["onclick", "onkeydown", "onsubmit", "onchange", "oninput", "onpointermove", "onpointerleave", "onfocus", "onblur"];

/** Let the keyboard reach what is wider than its place, and nothing else: a table, which `data-label` names. */
export function markScrolling(root) {
  for (const element of root.querySelectorAll("[data-keep][data-label]")) {
    const scrolls = element.scrollWidth > element.clientWidth + 1;
    if (scrolls === element.hasAttribute("tabindex")) continue;
    for (const [name, value] of Object.entries({ tabindex: "0", role: "region", "aria-label": element.dataset.label })) {
      if (scrolls) element.setAttribute(name, value);
      else element.removeAttribute(name);
    }
  }
}

/** Make `target` contain what `children` describe, and change only what differs: focus, hover and scroll stay.
 * What is inside an element with `data-own` is somebody else's, and so are attributes that `data-keep` names. */
export function show(target, ...children) {
  patchChildren(target, children.flat(Infinity).filter((each) => each instanceof Node));
}

function patchChildren(target, wanted) {
  wanted.forEach((node, at) => {
    const found = target.childNodes[at];
    if (found === undefined) target.append(node);
    else patch(found, node);
  });
  while (target.childNodes.length > wanted.length) target.lastChild.remove();
}

function patch(found, wanted) {
  if (found.nodeType !== wanted.nodeType || found.nodeName !== wanted.nodeName || keyOf(found) !== keyOf(wanted)) {
    found.replaceWith(wanted);
    return;
  }
  if (found.nodeType === Node.TEXT_NODE) {
    if (found.data !== wanted.data) found.data = wanted.data;
    return;
  }
  const kept = ["style", ...(found.getAttribute("data-keep") ?? "").split(" ")];
  for (const { name } of [...found.attributes]) {
    if (!kept.includes(name) && !wanted.hasAttribute(name)) found.removeAttribute(name);
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (name !== "style" && found.getAttribute(name) !== value) found.setAttribute(name, value);
  }
  if (found.style.cssText !== wanted.style.cssText) found.style.cssText = wanted.style.cssText;
  if (found.checked !== wanted.checked) found.checked = wanted.checked;
  for (const name of HANDLERS) found[name] = wanted[name];
  if (!found.hasAttribute("data-own")) patchChildren(found, [...wanted.childNodes]);
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? (node.getAttribute("data-key") ?? "") : "";
}
