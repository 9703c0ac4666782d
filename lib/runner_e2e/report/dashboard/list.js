// The cells in words, those first that need eyes.

const ROWS_AT_ONCE = 100;

function drawList(cells, state) {
  if (!cells.length) return el("p", { class: "notice" }, isFiltered(state) ? "No cell fits the filter." : "The plan has no cells.");
  const ordered = orderCells(cells);
  const body = el("tbody");
  const more = el("button", { type: "button", class: "more", click: () => extend(true) });
  const extend = (isAsked, most = ROWS_AT_ONCE) => {
    const from = body.children.length;
    const rows = ordered.slice(from, from + most).map(listRow);
    body.append(...rows);
    const left = ordered.length - body.children.length;
    more.hidden = left === 0;
    fill(more, `Show ${NUMBER.format(Math.min(left, ROWS_AT_ONCE))} more of ${NUMBER.format(left)}`);
    if (isAsked) rows[0]?.querySelector("a").focus();
  };
  extend(false);
  const head = [["Outcome"], ["Cell"], ["Attempts", "number"], ["Time", "number"], ["Cost", "number"]];
  const whole = el(
    "table",
    { class: "list" },
    el("caption", { class: "unheard" }, "Cells, failed first"),
    el("thead", null, el("tr", null, head.map(([title, name]) => el("th", { scope: "col", class: name }, title)))),
    body,
  );
  return { node: el("div", { id: "list" }, whole, more), finish: () => extend(false, ordered.length) };
}

function orderCells(cells) {
  return [...cells].sort((one, other) => one.rank - other.rank || one.number - other.number);
}

function listRow(cell) {
  return el(
    "tr",
    null,
    el("td", { class: "outcome" }, el("span", null, tile(cell.mark, cell.flaky), el("span", null, endWords(cell)))),
    el(
      "th",
      { scope: "row" },
      el("a", { href: writeState({ ...readState(""), cell: cell.name }), "data-cell": cell.number }, clip(cell.name, 300)),
      cell.mark !== "passed" && cell.message ? el("span", { class: "message" }, clip(cell.message, 240)) : null,
    ),
    el("td", { class: "number" }, cell.attempts ? NUMBER.format(cell.attempts) : "–"),
    el("td", { class: "number" }, cell.durationMs === null ? "–" : duration(cell.durationMs)),
    el("td", { class: "number" }, cell.cost.usd === null ? "unknown" : cost(cell.cost)),
  );
}
