// What happens when: reading the results, drawing, filtering, opening and closing cells.

class Page {
  constructor(results) {
    this.results = results;
    this.cells = prepareCells(results);
    this.state = readState(location.hash);
    this.sheet = document.getElementById("sheet");
    this.shown = this.cells;
    this.opener = null;
    this.opened = null;
    this.pending = null; // being unpacked, to be shown next
    this.list = null;
  }

  draw() {
    drawOverview(this.results);
    drawProblems(this.results);
    const section = document.getElementById("cells");
    fill(section, el("h2", { id: "cells-title" }, "Cells"));
    if (this.cells.length) {
      this.filters = drawFilters(this.cells, this.state, (change) => this.filter(change));
      section.append(this.filters.form);
    }
    section.append(el("div", { id: "results" }));
    this.drawCells();
    this.listen();
    this.follow();
  }

  drawCells() {
    this.shown = selectCells(this.cells, this.state);
    this.filters?.show(this.state, this.shown.length);
    this.list = drawList(this.shown, this.state);
    const grid = this.shown.length ? drawGrid(this.shown) : null;
    fill(document.getElementById("results"), grid, this.list.node ?? this.list);
    if (grid) steer(grid);
  }

  filter(change) {
    Object.assign(this.state, change);
    showState(this.state, false);
    this.drawCells();
  }

  listen() {
    document.addEventListener("click", (event) => this.click(event));
    window.addEventListener("hashchange", () => this.readAddress());
    window.addEventListener("popstate", () => this.readAddress());
    window.addEventListener("beforeprint", () => {
      this.list?.finish?.();
      for (const folded of document.querySelectorAll("details")) folded.open = true;
    });
    this.sheet.addEventListener("cancel", () => (this.pending = null));
    this.sheet.addEventListener("close", () => this.closed());
    this.sheet.addEventListener("click", (event) => {
      if (event.target === this.sheet) this.close();
    });
  }

  click(event) {
    const link = event.target.closest("a[data-cell], a.skip");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.classList.contains("skip")) {
      document.getElementById("cells").focus();
      return;
    }
    this.opener = link;
    this.open(this.cells[Number(link.dataset.cell)], true);
  }

  readAddress() {
    const next = readState(location.hash);
    const before = writeState({ ...this.state, cell: null });
    this.state = next;
    if (writeState({ ...next, cell: null }) !== before) this.drawCells();
    this.follow();
  }

  // Opens or closes as the address says.
  follow() {
    const cell = findCell(this.cells, this.state.cell);
    if (cell) this.open(cell, false);
    else this.close();
  }

  async open(cell, isStep) {
    this.state.cell = cell.name;
    showState(this.state, isStep);
    this.pending = cell;
    let details = null;
    let problem = null;
    try {
      details = await readDetails(cell);
    } catch (error) {
      problem = el("p", { class: "notice" }, `The details of this cell cannot be unpacked: ${error.message}`);
    }
    if (this.pending !== cell) return;
    [this.pending, this.opened] = [null, cell];
    fill(this.sheet, problem ? [el("div", { class: "sheet-bar" }, this.buttons(cell)), el("h2", { id: "sheet-title", tabindex: "-1" }, cell.name), problem] : drawSheet(cell, details, { buttons: this.buttons(cell) }));
    if (!this.sheet.open) this.sheet.showModal();
    document.documentElement.classList.add("opened");
    this.sheet.scrollTop = 0;
    document.getElementById("sheet-title").focus({ preventScroll: true });
  }

  buttons(cell) {
    const ordered = orderCells(this.shown);
    const spot = ordered.indexOf(cell);
    const go = (next) => () => this.open(next, false);
    const step = (words, next) => el("button", { type: "button", class: "quiet", disabled: !next, click: next && go(next) }, words);
    return [
      step("Previous", spot > 0 ? ordered[spot - 1] : null),
      step("Next", spot >= 0 ? ordered[spot + 1] : null),
      spot >= 0 ? el("span", { class: "label" }, `${NUMBER.format(spot + 1)} of ${NUMBER.format(ordered.length)}`) : null,
      el("button", { type: "button", class: "quiet close", click: () => this.close() }, "Close"),
    ];
  }

  close() {
    this.pending = null;
    if (this.sheet.open) this.sheet.close();
  }

  // The browser tells of it later: by then another cell may be about to open.
  closed() {
    if (this.pending || this.sheet.open) return;
    const cell = this.opened;
    this.opened = null;
    this.state.cell = null;
    showState(this.state, false);
    document.documentElement.classList.remove("opened");
    this.sheet.replaceChildren();
    const back = this.opener?.isConnected ? this.opener : document.querySelector(`[data-cell="${cell?.number}"]`);
    this.opener = null;
    (back ?? document.getElementById("cells")).focus();
  }
}

function startTheme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const show = () => fill(button, isDark() ? "Light" : "Dark", el("span", { class: "unheard" }, " colours"));
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("runner-e2e-theme", root.dataset.theme);
    } catch {
      // Storage is denied: the choice holds while the page is open.
    }
    show();
  });
  dark.addEventListener("change", show);
  button.hidden = false;
  show();
}

async function start() {
  startTheme();
  const wait = document.getElementById("wait");
  wait.hidden = false;
  try {
    new Page(await unpack("index")).draw();
    wait.remove();
    document.documentElement.dataset.drawn = "yes";
    performance.mark("drawn");
  } catch (error) {
    fill(wait, `The results cannot be shown here: ${error.message}. Read summary.md or results.json, which lie beside this file.`);
    throw error;
  }
}

start();
