"""Shardings: their values, their text, and their derivation from a mesh."""
