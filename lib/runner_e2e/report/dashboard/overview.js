// The head of the page: verdict with reasons, counts as a bar, and the facts of the campaign.

const MOST_REASONS = 8;
const TALLY = [
  ["failed", "failed"],
  ["refused", "refused"],
  ["notRun", "not run"],
  ["cancelled", "cancelled"],
  ["missing", "without an artifact"],
  ["rejected", "with a refused artifact"],
  ["flaky", "flaky"],
];

function drawOverview(results) {
  const { campaign, verdict } = results;
  const [word, kind] = VERDICTS.get(verdict.word) ?? [verdict.word, "fail"];
  document.title = seen(`${word} · run ${campaign.run} · ${campaign.repository ?? "campaign"}`);
  const letter = [...MARKS.values()].find((mark) => mark.kind === kind).letter;
  fill(
    document.getElementById("overview"),
    el(
      "div",
      { class: "verdict" },
      el("span", { class: `tile large ${kind}`, "aria-hidden": "true" }, el("b", null, kind === "fail" ? "F" : letter)),
      el(
        "div",
        null,
        el("h1", { id: "verdict" }, word),
        el("p", { class: "tally" }, tally(results)),
      ),
    ),
    bar(results.cells),
    reasonLists(verdict.reasons),
    campaignFacts(results),
  );
  drawBottom(results);
}

function reasonLists(reasons) {
  const list = (some) => (some.length ? el("ul", { class: "reasons" }, some.map((reason) => el("li", null, reason))) : null);
  const [first, rest] = [reasons.slice(0, MOST_REASONS), reasons.slice(MOST_REASONS)];
  return [list(first), rest.length ? el("details", { class: "folded" }, el("summary", null, count(rest.length, "further reason", "further reasons")), list(rest)) : null];
}

function tally({ counts, totals }) {
  const words = [`${NUMBER.format(counts.passed)} of ${count(counts.cells, "cell", "cells")} passed`];
  for (const [key, what] of TALLY) if (counts[key]) words.push(`${NUMBER.format(counts[key])} ${what}`);
  if (totals.attempts > counts.cells) words.push(`${NUMBER.format(totals.attempts)} attempts`);
  return words.join(" · ");
}

function bar(cells) {
  const kinds = new Map();
  for (const name of [...MARKS.keys()].reverse()) {
    const number = cells.filter((cell) => cell.mark === name).length;
    const { kind } = MARKS.get(name);
    if (number) kinds.set(kind, (kinds.get(kind) ?? 0) + number);
  }
  const parts = [...kinds].map(([kind, number]) => {
    const part = el("span", { class: kind });
    part.style.flexGrow = number;
    return part;
  });
  return parts.length ? el("div", { class: "bar", "aria-hidden": "true" }, parts) : null;
}

function campaignFacts({ campaign, totals, generatedAt }) {
  const run = `${campaign.run}, attempt ${campaign.attempt}`;
  return facts([
    ["Run", campaign.url ? siteLink(campaign.url, run) : run],
    ["Repository", campaign.repository],
    ["Commit", campaign.targetSha && el("code", { title: seen(campaign.targetSha) }, campaign.targetSha.slice(0, 12))],
    ["Ref", campaign.targetRef && code(campaign.targetRef)],
    ["Report made", moment(generatedAt)],
    ["Time in cells", duration(totals.durationMs)],
    ["Cost", costInFull(totals.cost)],
    ["Tokens", tokens(totals.usage)],
  ]);
}

function drawProblems({ problems, ignored = [] }) {
  if (!problems.length && !ignored.length) return;
  const section = document.getElementById("problems");
  section.hidden = false;
  fill(
    section,
    el("h2", { id: "problems-title" }, problems.length ? "Refused artifacts" : "Artifacts that do not count"),
    problems.length ? [
      el("p", { class: "hint" }, `${count(problems.length, "artifact was", "artifacts were")} refused in whole or in part. What is refused is never counted as a pass.`),
      table({
        caption: "What was refused, and why",
        head: ["Artifact", "Why", "What happened"],
        rows: problems.map((problem) => [{ head: true, value: code(problem.artifact) }, code(problem.code), problem.message]),
      }),
    ] : null,
    ignored.length ? el("p", { class: "hint" }, `${count(ignored.length, "artifact", "artifacts")} of earlier attempts did not count: no cell of the plan left them.`) : null,
  );
}

function drawBottom({ campaign, schema }) {
  fill(
    document.getElementById("bottom"),
    el("p", null, "The same data for programs: ", code("results.json"), ` (${schema}), `, code("junit.xml"), "."),
    el("p", null, "Plan ", el("code", { title: seen(campaign.matrixSha256) }, campaign.matrixSha256.slice(0, 12)), "."),
  );
}
