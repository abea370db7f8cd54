"""Pure: facts, tables, folds, decisions and views. Nothing here waits, opens, logs, reads a clock or makes an id."""
