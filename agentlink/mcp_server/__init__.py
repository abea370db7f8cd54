"""The MCP surface: tools over stdio. Parses, calls one use case, renders."""
