// Suites and cases down, profiles and environments across; one square per cell. Keys: a plain grid of squares.

function groupBy(items, key) {
  const groups = new Map();
  for (const item of items) {
    const name = key(item);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return groups;
}

function square(cell, words) {
  return el(
    "a",
    {
      class: "square",
      href: writeState({ ...readState(""), cell: cell.name }),
      tabindex: "-1",
      "data-cell": cell.number,
      "aria-label": `${endWords(cell)}: ${shorten(words, 200)}`,
      title: `${endWords(cell)}: ${shorten(cell.name, 200)}`,
    },
    tile(cell.mark, cell.flaky),
  );
}

// A cell without the names that the plan's rows have, as behind keys.
function isNamed(cell) {
  return cell.suite !== null && cell.profile !== null && cell.case !== null;
}

function drawGrid(cells) {
  const [named, keyed] = [cells.filter(isNamed), cells.filter((cell) => !isNamed(cell))];
  return el("div", { id: "grid" }, named.length ? drawMatrix(named) : null, keyed.length ? drawKeys(keyed) : null);
}

function drawMatrix(cells) {
  const profiles = groupBy(cells, (cell) => cell.profile);
  const columns = [...profiles].flatMap(([profile, own]) =>
    [...groupBy(own, (cell) => cell.environment).keys()].map((environment, position) => ({ profile, environment, first: !position })),
  );
  const places = new Map(columns.map(({ profile, environment }, position) => [JSON.stringify([profile, environment]), position]));
  const bodies = [...groupBy(cells, (cell) => cell.suite)].map(([suite, own]) => drawSuite(suite, own, columns, places));
  const upper = [...groupBy(columns, (column) => column.profile)].map(([profile, own]) =>
    el("th", { scope: "colgroup", colspan: String(own.length), class: "first" }, el("span", { class: "name", title: seen(profile) }, profile)),
  );
  const lower = columns.map(({ environment, first }) =>
    el("th", { scope: "col", class: first ? "first" : null }, el("span", { class: "name", title: seen(environment) }, environment)),
  );
  const matrix = el(
    "table",
    { class: columns.length > 8 ? "matrix narrow" : "matrix", role: "grid", "aria-label": "Cells by suite, profile and environment" },
    el(
      "thead",
      null,
      el("tr", null, el("td", { class: "corner", rowspan: "2" }, el("span", { class: "unheard" }, "Case")), upper),
      el("tr", null, lower),
    ),
    bodies,
  );
  return el("div", { class: "scroller" }, matrix);
}

function drawSuite(suite, cells, columns, places) {
  const head = el(
    "tr",
    { class: "suite" },
    el("th", { scope: "rowgroup", colspan: String(columns.length + 1) }, el("span", { class: "name", title: seen(suite) }, suite)),
  );
  const rows = [...groupBy(cells, (cell) => cell.case)].map(([name, own]) => {
    const slots = columns.map(() => []);
    for (const cell of own) slots[places.get(JSON.stringify([cell.profile, cell.environment]))].push(cell);
    return el(
      "tr",
      null,
      el("th", { scope: "row" }, el("span", { class: "name", title: seen(name) }, name)),
      slots.map((slot, position) =>
        el(
          "td",
          { class: columns[position].first ? "first" : null },
          slot.map((cell) => square(cell, `${cell.case}, ${cell.profile}, ${cell.environment}`)),
        ),
      ),
    );
  });
  return el("tbody", null, head, rows);
}

function drawKeys(cells) {
  return el(
    "ul",
    { class: "keys", "aria-label": "Cells by key" },
    cells.map((cell) => {
      const link = square(cell, cell.name);
      link.append(el("code", { "aria-hidden": "true" }, cell.name));
      return el("li", null, link);
    }),
  );
}

// One square is in the order of Tab; arrows lead to its neighbours, Home and End along its row.
function steer(grid) {
  const all = () => [...grid.querySelectorAll(".square")];
  const settle = (next) => {
    for (const one of grid.querySelectorAll('.square[tabindex="0"]')) one.tabIndex = -1;
    next.tabIndex = 0;
  };
  const first = all()[0];
  if (first) settle(first);
  grid.addEventListener("focusin", (event) => {
    if (event.target.classList.contains("square")) settle(event.target);
  });
  grid.addEventListener("keydown", (event) => {
    if (!event.target.classList.contains("square") || event.altKey || event.metaKey) return;
    const next = neighbour(all(), event.target, event.key, event.ctrlKey);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
}

function neighbour(squares, from, key, whole) {
  const at = (one) => one.getBoundingClientRect();
  const own = at(from);
  const row = squares.filter((one) => Math.abs(at(one).top - own.top) < own.height / 2);
  const spot = row.indexOf(from);
  if (key === "ArrowRight") return row[spot + 1];
  if (key === "ArrowLeft") return row[spot - 1];
  if (key === "Home") return whole ? squares[0] : row[0];
  if (key === "End") return whole ? squares.at(-1) : row.at(-1);
  if (key !== "ArrowDown" && key !== "ArrowUp") return undefined;
  const down = key === "ArrowDown";
  const beyond = squares.filter((one) => (down ? at(one).top > own.top + own.height / 2 : at(one).top < own.top - own.height / 2));
  const near = beyond.map((one) => [Math.abs(at(one).top - own.top) * 1000 + Math.abs(at(one).left - own.left), one]);
  return near.sort(([one], [other]) => one - other)[0]?.[1];
}
