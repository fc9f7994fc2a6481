"""Builds wheels from the official ones, and verifies them."""
