"""The parts of XLA's messages that are read or written here."""
