"""Automatic routing: hints and rules in, one preset or one typed refusal out. Nothing here reads a file or a Host."""
