"""Agentlink: hand a task from one coding agent to another without ever losing it."""

__version__ = "0.1.0"
