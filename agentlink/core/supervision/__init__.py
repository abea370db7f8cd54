"""Supervision: what a task's conversation says after its launch, and where a reader of it stands."""
