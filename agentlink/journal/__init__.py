"""The journal adapter: one locked, chained JSONL file that is flushed before anything it announces happens."""
