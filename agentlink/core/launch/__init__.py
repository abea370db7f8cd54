"""The launch of a delegated task: its table, its fold, its decisions and its crash windows."""
