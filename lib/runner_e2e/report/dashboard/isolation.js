// What shows that agents saw their own run only: the probe, what each agent tried, what they reached.

function sandboxPart({ probe, sandbox }) {
  if (sandbox === "not-applicable" && !probe.checks.length) return part("Sandbox", el("p", null, "Isolation does not apply to this cell: it starts nothing that could be restricted."));
  const boots = new Set(probe.checks.map((check) => check.boot)).size > 1;
  const isRecorded = (check) => check.expected === "recorded";
  const bad = (check) => check.problem !== null || (check.observed !== check.expected && !isRecorded(check));
  const tone = (check) => (bad(check) ? "bad" : isRecorded(check) ? "note" : "good");
  const rows = probe.checks.map((check) => ({
    class: bad(check) ? "bad" : null,
    notable: bad(check),
    cells: [
      { head: true, value: [code(check.id), boots && el("span", { class: "label" }, ` boot ${check.boot}`)] },
      check.expected,
      outcome(tone(check), check.observed),
      check.control,
      { class: "broad", value: check.problem ?? "" },
    ],
  }));
  return part(
    "Sandbox",
    el("p", { class: "hint" }, PROBE_WORDS.get(probe.status) ?? probe.status),
    probe.reasons.length ? el("ul", { class: "reasons" }, probe.reasons.map((reason) => el("li", null, reason))) : null,
    facts(
      [
        ["Probe by", probe.owner],
        ["Landlock ABI", probe.abi === null ? null : String(probe.abi)],
        ["Launches", NUMBER.format(probe.launches)],
        ["Refused launches", NUMBER.format(probe.refusals)],
      ],
      "facts small",
    ),
    protectionList(probe.protections),
    rows.length
      ? foldable({
          caption: "Checks inside and outside the sandbox",
          head: ["Check", "Expected", "Inside", "Outside", "Problem"],
          rows,
          notable: (row) => row.notable,
          rest: (number) => `${count(number, "check", "checks")} as expected`,
        })
      : null,
  );
}

function protectionList(protections) {
  if (!protections.length) return null;
  const item = ({ name, level, outcome: came }) =>
    el("li", { class: came === "enforced" ? null : "weak" }, code(name), " ", outcome(came === "enforced" ? "good" : "note", came), level && el("span", { class: "label" }, ` (${level})`));
  return el("ul", { class: "protections", "aria-label": "Protections" }, protections.map(item));
}

const REACH_TONES = new Map([
  ["reached", "bad"],
  ["visible", "note"],
  ["tried", "good"],
  ["not-tried", "note"],
]);
const REACH_WORDS = new Map([
  ["reached", "reached"],
  ["visible", "known gap"],
]);

function agentPart({ agents }) {
  if (!agents.length) return null;
  const places = new Map();
  agents.forEach((agent, column) => {
    for (const attempt of agent.tried) {
      const key = JSON.stringify([attempt.id, attempt.how]);
      if (!places.has(key)) places.set(key, { id: attempt.id, how: attempt.how, got: agents.map(() => []) });
      places.get(key).got[column].push(attempt);
    }
  });
  const rows = [...places.values()].map(({ id, how, got }) => {
    const reaches = new Set(got.flat().map((one) => one.reach));
    return {
      class: reaches.has("reached") ? "bad" : null,
      notable: reaches.has("reached") || reaches.has("visible"),
      cells: [{ head: true, value: code(id) }, how, ...got.map((all) => (all.length ? all.map(gotWords) : el("span", { class: "label" }, "not sent there")))],
    };
  });
  rows.sort((one, other) => Number(other.class === "bad") - Number(one.class === "bad"));
  const said = agents.map((agent) => {
    const reached = agent.tried.filter((one) => one.reach === "reached").length;
    const end = agent.done ? "did its work" : "did not finish its work";
    const issue = agent.issueStatus ? ` (issue ${agent.issueStatus})` : "";
    return el("li", null, el("strong", null, agent.name), ` ${end}${issue}, tried ${count(agent.tried.length, "place", "places")}, reached ${reached ? NUMBER.format(reached) : "none"}.`);
  });
  return part(
    "What the agents tried",
    el("ul", { class: "reasons" }, said),
    rows.length
      ? foldable({
          caption: "What each agent tried, side by side",
          head: ["Place", "How", ...agents.map((agent) => agent.name)],
          rows,
          notable: (row) => row.notable,
          rest: (number) => `${count(number, "other place", "other places")}: nothing was reached there`,
        })
      : null,
  );
}

function gotWords({ got, reach }) {
  const more = REACH_WORDS.get(reach);
  return el("div", null, outcome(REACH_TONES.get(reach) ?? "note", got), more && more !== got ? el("span", { class: "label" }, ` ${more}`) : null);
}

function contaminationPart({ contamination }) {
  if (!contamination) return null;
  const { verdict, reached, knownGaps, foreign, accesses, searchedBytes, unsearched } = contamination;
  const codes = (values) => (values.length ? el("ul", { class: "codes" }, values.map((value) => el("li", null, code(value)))) : null);
  const rows = accesses.map((access) => [
    { head: true, value: code(access.place) },
    access.outcome,
    NUMBER.format(access.count),
    { class: "broad", value: access.line ? el("pre", { class: "line" }, access.line) : "" },
  ]);
  return part(
    "Contamination",
    verdict === null ? null : el("p", { class: "hint" }, CONTAMINATION_WORDS.get(verdict) ?? verdict),
    facts(
      [
        ["Reached", codes(reached)],
        ["Known gaps", codes(knownGaps)],
        ["Marks of other runs", codes(foreign)],
        ["Searched", bytes(searchedBytes)],
        ["Not searched", codes(unsearched)],
      ],
      "facts small",
    ),
    rows.length ? table({ caption: "Accesses in what the agents wrote", head: ["Place", "Outcome", "Records", "For example"], rows, numbers: [2] }) : null,
  );
}
