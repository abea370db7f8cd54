"""The command line: parses, calls one use case, renders for a person or as one JSON document."""
