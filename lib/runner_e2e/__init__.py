"""Run end-to-end agent evaluations in CI without the agent seeing the evaluation."""

__version__ = "0.1.0"
