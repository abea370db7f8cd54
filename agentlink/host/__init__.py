"""The Host adapter: sockets, cookies and bounds around the pure wire translation."""
