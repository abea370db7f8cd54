"""State machines as data: the table, a live engine built from it, and its renderings."""
