"""Releases the wheel: builds, verifies, tries and describes it."""
