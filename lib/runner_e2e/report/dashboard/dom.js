// Building the page: foreign text only ever becomes text nodes and attributes, never markup.

// What has no shape of its own, or turns the text around it: shown by its number.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu;

function codePoint(character) {
  return "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

function isPlain(character) {
  return character === "\n" || character === "\t";
}

// Text for attributes, titles and options.
function seen(value) {
  return String(value).replace(UNSEEN, (one) => (isPlain(one) ? " " : `‹${codePoint(one)}›`));
}

// The first characters, no pair of surrogates cut in two.
function clip(value, most) {
  const characters = Array.from(String(value).slice(0, most * 2));
  return characters.length > most ? characters.slice(0, most - 1).join("") + "…" : characters.join("");
}

function shorten(value, most) {
  return seen(clip(value, most));
}

// Text for the page itself.
function text(value) {
  const whole = String(value);
  const parts = document.createDocumentFragment();
  let from = 0;
  for (const found of whole.matchAll(UNSEEN)) {
    if (isPlain(found[0])) continue;
    parts.append(whole.slice(from, found.index), el("span", { class: "unseen" }, codePoint(found[0])));
    from = found.index + found[0].length;
  }
  if (from === 0) return document.createTextNode(whole);
  parts.append(whole.slice(from));
  return parts;
}

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : text(child));
  }
}

function fill(node, ...children) {
  node.replaceChildren();
  add(node, children);
}

// Rows are lists of cells: text, nodes, or { head, class, value }.
function table({ caption, head, rows, className, numbers = [] }) {
  const body = rows.map((row) =>
    el("tr", { class: row.class }, (row.cells ?? row).map((cell, position) => tableCell(cell, numbers.includes(position)))),
  );
  const titles = head.map((title, position) =>
    el("th", { scope: "col", class: numbers.includes(position) ? "number" : null }, title),
  );
  const whole = el(
    "table",
    { class: className },
    el("caption", { class: "unheard" }, caption),
    el("thead", null, el("tr", null, titles)),
    el("tbody", null, body),
  );
  return el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": caption }, whole);
}

function tableCell(cell, isNumber) {
  const isSpecial = cell !== null && typeof cell === "object" && !(cell instanceof Node) && !Array.isArray(cell);
  const { head = false, class: className = null, value = cell } = isSpecial ? cell : {};
  const names = [className, isNumber && "number"].filter(Boolean).join(" ") || null;
  return head ? el("th", { scope: "row", class: names }, value) : el("td", { class: names }, value);
}

function facts(pairs, className = "facts") {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: className }, known.map(([term, value]) => el("div", null, el("dt", null, term), el("dd", null, value))));
}

function code(value) {
  return el("code", null, value);
}

// A link only where it leads to a site, over TLS, under no other name than the one shown.
function siteLink(address, words) {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    return el("span", null, words);
  }
  if (url.protocol !== "https:" || url.username || url.password) return el("span", null, words);
  const link = el("a", { href: url.href, rel: "noopener noreferrer", target: "_blank" }, words);
  return el("span", null, link, el("span", { class: "label" }, ` on ${url.hostname}`));
}
