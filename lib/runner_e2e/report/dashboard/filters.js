// The controls that choose cells, and how many they leave.

const CHOICE_LABELS = { status: "Status", suite: "Suite", profile: "Profile", environment: "Environment", sandbox: "Sandbox" };
const CHOICE_WORDS = { status: STATUS_WORDS, sandbox: SANDBOX_WORDS };

function drawFilters(cells, state, changed) {
  const search = el("input", {
    id: "search",
    type: "search",
    placeholder: "Name, message, model…",
    autocomplete: "off",
    spellcheck: "false",
    input: () => changed({ search: search.value }),
  });
  const selects = CHOICES.map((choice) => drawChoice(cells, choice, changed)).filter(Boolean);
  const chips = drawChips(cells, state, changed);
  const reset = el("button", { type: "button", class: "quiet", id: "reset", click: () => changed(readState("")) }, "Clear");
  const form = el(
    "form",
    { class: "filters", role: "search", "aria-label": "Filter the cells", submit: (event) => event.preventDefault() },
    el("div", { class: "chips", role: "group", "aria-label": "Outcome" }, chips),
    el("div", { class: "fields" }, field("Search", search, "wide"), selects),
    el("p", { class: "shown" }, el("output", { id: "shown", "aria-live": "polite" }), reset),
  );
  return { form, show: (next, shown) => showFilters(form, cells, next, shown) };
}

function drawChips(cells, state, changed) {
  const chips = [...MARKS].flatMap(([name, { word }]) => {
    const number = cells.filter((cell) => cell.mark === name).length;
    if (!number && !state.classes.has(name)) return [];
    const toggle = () => {
      const classes = new Set(pressed());
      if (!classes.delete(name)) classes.add(name);
      changed({ classes });
    };
    return [chip({ "data-class": name, click: toggle }, tile(name), word, number)];
  });
  const flaky = cells.filter((cell) => cell.flaky).length;
  if (flaky) {
    const toggle = () => changed({ flaky: document.getElementById("flaky").getAttribute("aria-pressed") !== "true" });
    chips.push(chip({ id: "flaky", click: toggle }, tile("passed", true), "Flaky", flaky));
  }
  return chips;
}

function pressed() {
  return [...document.querySelectorAll(".chip[data-class][aria-pressed=true]")].map((one) => one.dataset.class);
}

function chip(attributes, mark, word, number) {
  return el(
    "button",
    { type: "button", class: "chip", "aria-pressed": "false", ...attributes },
    mark,
    el("span", null, word),
    el("span", { class: "amount" }, NUMBER.format(number)),
  );
}

function drawChoice(cells, choice, changed) {
  const values = [...new Set(cells.map((cell) => cell[choice]).filter((value) => value !== null))];
  if (values.length < 2) return null;
  const words = CHOICE_WORDS[choice];
  const options = values.map((value) =>
    el("option", { value: wellFormed(value) }, words?.get(value) ?? shorten(value, 60)),
  );
  const select = el(
    "select",
    { id: `choice-${choice}`, name: choice, change: () => changed({ [choice]: select.value }) },
    el("option", { value: "" }, "All"),
    options,
  );
  return field(CHOICE_LABELS[choice], select);
}

function field(label, control, className = "") {
  return el("div", { class: `field ${className}` }, el("label", { for: control.id }, label), control);
}

function showFilters(form, cells, state, shown) {
  const search = form.querySelector("#search");
  if (search.value !== state.search) search.value = state.search;
  for (const select of form.querySelectorAll("select")) {
    select.value = state[select.name];
    if (select.selectedIndex < 0) select.value = "";
  }
  for (const one of form.querySelectorAll(".chip[data-class]"))
    one.setAttribute("aria-pressed", String(state.classes.has(one.dataset.class)));
  form.querySelector("#flaky")?.setAttribute("aria-pressed", String(state.flaky));
  form.querySelector("#reset").hidden = !isFiltered(state);
  const all = count(cells.length, "cell", "cells");
  fill(form.querySelector("#shown"), shown === cells.length ? `All ${all}` : `${NUMBER.format(shown)} of ${all}`);
}
