"""A plugin through its C table, as a framework calls it: without torch."""
