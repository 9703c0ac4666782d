// One cell in full: what it came to, why, and what shows it.

const SHORT_TABLE = 12;

function drawSheet(cell, details, step) {
  const parts = details
    ? [
        outcomeFacts(cell),
        details.shortened ? el("p", { class: "notice" }, "This cell left more than a report can show: tables and texts are cut. The whole is in its artifact.") : null,
        attemptPart(details),
        earlierPart(details),
        matcherPart(details),
        sandboxPart(details),
        agentPart(details),
        contaminationPart(details),
        logPart(details),
        picturePart(cell, details),
        particularPart(cell, details),
        filePart(details),
      ]
    : [
        outcomeFacts(cell),
        el("p", { class: "notice" }, "This campaign's details are too large for one page. Those of this cell are in ", code("results.json"), "."),
      ];
  return [
    el("div", { class: "sheet-bar" }, step.buttons),
    el(
      "header",
      { class: "sheet-head" },
      tile(cell.mark, cell.flaky),
      el("div", null, el("h2", { id: "sheet-title", tabindex: "-1" }, clip(cell.name, 1000)), el("p", null, endWords(cell))),
    ),
    cell.message ? el("p", { class: "lead" }, cell.message) : null,
    parts,
  ];
}

function part(title, ...content) {
  return el("section", { class: "part" }, el("h3", null, title), content);
}

function outcomeFacts(cell) {
  return facts(
    [
      ["Status", STATUS_WORDS.get(cell.status) ?? cell.status],
      ["Class", cell.failureClass && code(cell.failureClass)],
      ["Sandbox", SANDBOX_WORDS.get(cell.sandbox) ?? cell.sandbox],
      ["Time", duration(cell.durationMs)],
      ["Cost", costInFull(cell.cost)],
      ["Tokens", tokens(cell.usage)],
    ],
    "facts small",
  );
}

function particularPart(cell, details) {
  const where = isNamed(cell) ? [["Suite", cell.suite], ["Case", cell.case], ["Profile", cell.profile]] : [];
  const pairs = [
    ...where,
    ["Environment", cell.environment],
    ["Model", cell.model],
    ["Provider", cell.provider],
    ["Harness", details.harness],
    ["Cell's id told by", details.transport],
    ["Exit code", String(details.exitCode)],
    ["Began", details.startedAt === null ? null : moment(details.startedAt)],
    ["Ended", details.finishedAt === null ? null : moment(details.finishedAt)],
    ["Attempt of the workflow", String(cell.runAttempt)],
    ["Commit", details.targetSha && code(details.targetSha.slice(0, 12))],
    ["Artifact", details.artifact && code(details.artifact)],
  ];
  return part("Particulars", facts(pairs, "facts small"));
}

function attemptPart({ attempts }) {
  if (!attempts.length) return null;
  const items = attempts.map((attempt) => {
    const took = Date.parse(attempt.finishedAt) - Date.parse(attempt.startedAt);
    const time = took >= 0 ? duration(took) : "time unknown";
    return el(
      "li",
      null,
      el("p", { class: "attempt" }, el("strong", null, `Attempt ${attempt.number}`), el("span", null, cameTo(attempt)), el("span", { class: "label" }, time)),
      attempt.message ? el("p", null, attempt.message) : null,
      attempt.rule ? el("p", null, el("span", { class: "label" }, "Rule "), code(attempt.rule)) : null,
      attempt.line ? el("pre", { class: "line" }, attempt.line) : null,
      attempt.retry ? el("p", { class: "hint" }, attempt.retry) : null,
    );
  });
  return part("Attempts", el("ol", { class: "attempts" }, items));
}

function cameTo({ failureClass, status }) {
  if (failureClass) return code(failureClass);
  return status === null ? "unreadable" : (STATUS_WORDS.get(status) ?? status);
}

function earlierPart({ earlier }) {
  if (!earlier.length) return null;
  const rows = earlier.map((one) => [
    { head: true, value: String(one.runAttempt) },
    cameTo(one),
    code(one.artifact),
  ]);
  return part(
    "Earlier attempts of the workflow",
    el("p", { class: "hint" }, "They do not count: the latest one does."),
    table({ caption: "Earlier attempts of the workflow", head: ["No.", "Came to", "Artifact"], rows }),
  );
}

function matcherPart({ matchers }) {
  if (!matchers.length) return null;
  const ordered = [...matchers].sort((one, other) => Number(one.passed) - Number(other.passed));
  const rows = ordered.map((one) => ({
    class: one.passed ? null : "bad",
    cells: [{ head: true, value: code(one.kind) }, one.agent ?? "–", outcome(one.passed ? "good" : "bad", one.passed ? "holds" : "does not hold"), { class: "broad", value: one.detail }],
  }));
  const failed = matchers.filter((one) => !one.passed).length;
  return part(
    "Matchers",
    el("p", { class: "hint" }, failed ? `${failed} of ${count(matchers.length, "matcher", "matchers")} ${failed === 1 ? "does" : "do"} not hold.` : `${count(matchers.length, "matcher holds", "matchers hold")}.`),
    table({ caption: "Matchers", head: ["Matcher", "Agent", "Result", "Detail"], rows }),
  );
}

function outcome(tone, words) {
  const sign = { good: "✓", bad: "✗", note: "•" }[tone];
  return el("span", { class: `outcome-${tone}` }, el("span", { "aria-hidden": "true" }, `${sign} `), words);
}

// Rows that need eyes stand open; a long rest is folded.
function foldable({ caption, head, rows, notable, rest }) {
  const eyes = rows.filter(notable);
  const others = rows.filter((row) => !notable(row));
  if (rows.length <= SHORT_TABLE || !others.length) return table({ caption, head, rows: [...eyes, ...others] });
  const folded = el("details", { class: "folded" }, el("summary", null, rest(others.length)));
  folded.append(table({ caption: `${caption}, the rest`, head, rows: others }));
  return [eyes.length ? table({ caption, head, rows: eyes }) : null, folded];
}

function logPart({ log }) {
  if (!log) return null;
  return part(
    "Log",
    el("p", { class: "hint" }, log.cut ? "The last lines of server.log, without secrets; the artifact holds the whole." : "server.log, without secrets."),
    el("pre", { class: "log", tabindex: "0", role: "region", "aria-label": "Log excerpt" }, log.excerpt),
  );
}

function picturePart(cell, { screenshot }) {
  if (!screenshot) return null;
  const source = readPicture(cell);
  if (!source) return part("Screenshot", el("p", { class: "hint" }, "It is in the artifact: ", code(screenshot.path), `, ${bytes(screenshot.bytes)}.`));
  const image = el("img", { src: source, alt: "The product's page at the end of the cell" });
  image.addEventListener("error", () => image.replaceWith(el("p", { class: "notice" }, "The picture cannot be shown.")));
  return part("Screenshot", el("figure", null, image, el("figcaption", { class: "hint" }, code(screenshot.path))));
}

function filePart({ files }) {
  if (!files.length) return null;
  const rows = files.map((file) => [{ head: true, value: code(file.path) }, bytes(file.bytes)]);
  const folded = el("details", { class: "folded" }, el("summary", null, `${count(files.length, "file", "files")} in the artifact`));
  folded.append(table({ caption: "Files in the artifact", head: ["File", "Size"], rows, numbers: [1] }));
  return part("Files", folded);
}
