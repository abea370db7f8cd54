"""Use cases: load, decide, append, act. The ports to the Host and the journal are defined here."""
