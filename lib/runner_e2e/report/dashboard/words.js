// What statuses, classes, sums and times are called.

// In the order of weight: the list begins with what needs eyes first.
const MARKS = new Map([
  ["contaminated", { letter: "C", kind: "safety", word: "Contaminated" }],
  ["secret_leak", { letter: "L", kind: "safety", word: "Secret leak" }],
  ["sandbox_unproven", { letter: "U", kind: "safety", word: "Sandbox unproven" }],
  ["candidate_failure", { letter: "F", kind: "fail", word: "Candidate failure" }],
  ["provider_variance", { letter: "V", kind: "fail", word: "Provider variance" }],
  ["other", { letter: "E", kind: "fail", word: "Did not pass" }],
  ["permanent_infrastructure", { letter: "P", kind: "infra", word: "Permanent infrastructure" }],
  ["transient_infrastructure", { letter: "T", kind: "infra", word: "Transient infrastructure" }],
  ["cleanup_failure", { letter: "K", kind: "infra", word: "Cleanup failure" }],
  ["rejected", { letter: "X", kind: "gone", word: "Artifact refused" }],
  ["missing", { letter: "?", kind: "gone", word: "No artifact" }],
  ["budget_exceeded", { letter: "$", kind: "held", word: "Budget exceeded" }],
  ["refused", { letter: "R", kind: "held", word: "Refused" }],
  ["cancelled", { letter: "/", kind: "held", word: "Cancelled" }],
  ["not_run", { letter: "–", kind: "held", word: "Not run" }],
  ["passed", { letter: "", kind: "pass", word: "Passed" }],
]);
const RANKS = new Map([...MARKS.keys()].map((name, rank) => [name, rank]));

const STATUS_WORDS = new Map([
  ["started", "Started, no end"],
  ["passed", "Passed"],
  ["failed", "Failed"],
  ["refused", "Refused"],
  ["not_run", "Not run"],
  ["cancelled", "Cancelled"],
  ["timed-out", "Timed out"],
]);
const VERDICTS = new Map([
  ["passed", ["Passed", "pass"]],
  ["failed", ["Failed", "fail"]],
  ["refused", ["Refused", "held"]],
  ["infrastructure", ["Infrastructure failed", "infra"]],
  ["coverage-lost", ["Coverage lost", "held"]],
  ["cancelled", ["Cancelled", "held"]],
]);
const SANDBOX_WORDS = new Map([
  ["enforced", "Enforced"],
  ["target", "The target's own"],
  ["not-applicable", "Does not apply"],
  ["unproven", "Unproven"],
]);
const PROBE_WORDS = new Map([
  ["passed", "Every check came out as it has to."],
  ["failed", "A check did not come out as it has to."],
  ["absent", "No probe was found, which proves nothing."],
  ["mismatch", "The log contradicts the probe."],
]);
const CONTAMINATION_WORDS = new Map([
  ["nothing-tried", "The agents tried to reach nothing that is hidden."],
  ["tried-and-denied", "The agents tried hidden places, and reached none of them."],
  ["reached", "An agent reached hidden places."],
  ["not-searched-in-full", "What the agents wrote could not be searched in full."],
]);
const SOURCES = new Map([
  ["gateway", "counted by the gateway"],
  ["product", "as the product reports"],
  ["harness", "as the harness reports"],
]);

function markOf(cell) {
  if (cell.source === "missing" || cell.source === "rejected") return cell.source;
  if (cell.status === "passed") return "passed";
  return MARKS.has(cell.failureClass) ? cell.failureClass : "other";
}

// A square that stands for an end: its shape and letter tell the same as its colour.
function tile(mark, flaky) {
  const { letter, kind } = MARKS.get(mark);
  return el("span", { class: `tile ${kind}${flaky ? " flaky" : ""}`, "aria-hidden": "true" }, el("b", null, letter));
}

function endWords(cell) {
  const { word } = MARKS.get(cell.mark);
  return cell.flaky ? `${word}, flaky` : word;
}

function count(number, one, many) {
  return `${NUMBER.format(number)} ${number === 1 ? one : many}`;
}

const NUMBER = new Intl.NumberFormat("en-US");
const CENTS = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const FRACTIONS = new Intl.NumberFormat("en-US", { minimumFractionDigits: 4, maximumFractionDigits: 4 });

function usd(value) {
  return "$" + (value >= 0.1 || value === 0 ? CENTS : FRACTIONS).format(value);
}

function cost(record) {
  if (record.usd === null) return record.status === "unpriced" ? "unknown (no price)" : "unknown";
  const sum = record.status === "partial" ? `at least ${usd(record.usd)}` : usd(record.usd);
  return record.scripted ? `${sum} (scripted)` : sum;
}

function costInFull(record) {
  const more = [
    SOURCES.get(record.source),
    record.requests !== null && count(record.requests, "request", "requests"),
    record.scripted && "scripted: a price for a model that nobody was paid for",
  ].filter(Boolean);
  const sum = cost({ ...record, scripted: false });
  return more.length ? `${sum}, ${more.join(", ")}` : sum;
}

function tokens(usage) {
  const { inputTokens, outputTokens, cachedInputTokens } = usage;
  if (inputTokens === null && outputTokens === null) return "unknown";
  const cached = cachedInputTokens ? ` (${NUMBER.format(cachedInputTokens)} cached)` : "";
  const side = (value) => (value === null ? "unknown" : NUMBER.format(value));
  const words = `${side(inputTokens)} in${cached}, ${side(outputTokens)} out`;
  return usage.status === "partial" ? `at least ${words}` : words;
}

function duration(ms) {
  if (ms === null) return "unknown";
  const whole = Math.round(ms / 1000);
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const [hours, minutes, seconds] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const two = (value) => String(value).padStart(2, "0");
  if (hours) return `${NUMBER.format(hours)} h ${two(minutes)} min`;
  return minutes ? `${minutes} min ${two(seconds)} s` : `${seconds} s`;
}

function bytes(size) {
  if (size < 1000) return `${size} B`;
  return size < 1_000_000 ? `${(size / 1000).toFixed(1)} kB` : `${(size / 1_000_000).toFixed(1)} MB`;
}

function moment(value) {
  const when = value === null ? NaN : Date.parse(value);
  if (Number.isNaN(when)) return "unknown";
  const iso = new Date(when).toISOString();
  return el("time", { datetime: iso }, `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`);
}
