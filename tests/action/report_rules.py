"""What every workflow keeps to that reports on a campaign. Pure."""

from action.workflow_rules import find_needs, is_own, is_use_of, jobs

_REPORT_WORDS = ("always()", "!cancelled()", "needs.plan.result == 'success'")
# What the report cannot do without: rows that agree with the plan, and the attempt of each job.
_REPORT_INPUTS = {
    "artifacts-path": "artifacts",
    "matrix-sha256": "${{ needs.plan.outputs.matrix-sha256 }}",
    "cell-count": "${{ needs.plan.outputs.cell-count }}",
    "github-token": "${{ github.token }}",
}


def find_lost_reports(text: str) -> list[str]:
    """The campaign's verdict comes out whatever became of its cells, once there is a plan."""
    reports = [job for job in jobs(text).values() if any(is_own(step, "report") for step in job["steps"])]
    if len(reports) != 1:
        return [f"{len(reports)} jobs report"]
    (report,) = reports
    found = [word for word in _REPORT_WORDS if word not in report.get("if", "")]
    found += [name for name in ("plan", "cells") if name not in find_needs(report)]
    downloads = [step for step in report["steps"] if is_use_of(step, "actions/download-artifact")]
    tried = [step for step in downloads if step.get("continue-on-error") is True]
    again = [step for step in downloads if "outcome == 'failure'" in step.get("if", "")]
    patterns = {step["with"].get("pattern") for step in downloads}
    wanted = {f"runner-e2e-{part}${{{{ github.run_id }}}}-*" for part in ("", "plan-")}
    if patterns != wanted or len(tried) != 2 or len(again) != 2:
        found.append("downloads")
    if any("merge-multiple" in step["with"] for step in downloads):
        found.append("merge-multiple")
    last = report["steps"][-1]
    if not is_own(last, "report") or {"if", "continue-on-error"} & last.keys():
        found.append("report is not the last step")
    given = last.get("with", {})
    found += [name for name, value in _REPORT_INPUTS.items() if given.get(name) != value]
    if report.get("permissions", {}).get("actions") != "read":
        found.append("permissions")
    return found
