"""The page for people who would rather look: one HTML file that holds a campaign and asks no network."""

from runner_e2e.report.dashboard.page import build_dashboard

__all__ = ["build_dashboard"]
