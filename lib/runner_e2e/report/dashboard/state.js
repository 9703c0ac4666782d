// What is filtered and opened, as the address tells it: a link shows another reader the same.

const CHOICES = ["status", "suite", "profile", "environment", "sandbox"];

// The address holds no lone surrogates, so names are compared without them.
function wellFormed(value) {
  return String(value).replace(/\p{Cs}/gu, "\ufffd");
}

function readState(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { search: given.get("search") ?? "", flaky: given.get("flaky") === "yes", cell: given.get("cell") };
  state.classes = new Set((given.get("class") ?? "").split(",").filter((name) => MARKS.has(name)));
  for (const choice of CHOICES) state[choice] = given.get(choice) ?? "";
  return state;
}

function writeState(state) {
  const given = new URLSearchParams();
  if (state.search) given.set("search", state.search);
  if (state.classes.size) given.set("class", [...state.classes].join(","));
  for (const choice of CHOICES) if (state[choice]) given.set(choice, state[choice]);
  if (state.flaky) given.set("flaky", "yes");
  if (state.cell) given.set("cell", wellFormed(state.cell));
  return `#${given}`;
}

function isFiltered(state) {
  return Boolean(state.search || state.classes.size || state.flaky || CHOICES.some((choice) => state[choice]));
}

function selectCells(cells, state) {
  const words = state.search.normalize("NFC").toLowerCase().split(/\s+/u).filter(Boolean);
  return cells.filter(
    (cell) =>
      (!state.classes.size || state.classes.has(cell.mark)) &&
      (!state.flaky || cell.flaky) &&
      CHOICES.every((choice) => !state[choice] || wellFormed(cell[choice] ?? "") === state[choice]) &&
      words.every((word) => cell.words.includes(word)),
  );
}

function findCell(cells, name) {
  return name === null ? undefined : cells.find((cell) => wellFormed(cell.name) === name);
}

// The address changes without a new entry in the history; where that is denied, the page works without.
function showState(state, isStep) {
  const address = writeState(state);
  if (address === location.hash || (address === "#" && !location.hash)) return;
  try {
    if (isStep) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  } catch {
    // A frame without an origin may not change its address.
  }
}
