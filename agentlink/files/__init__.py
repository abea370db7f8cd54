"""Private files and directories: what the adapters share."""
