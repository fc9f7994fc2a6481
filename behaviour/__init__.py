"""Judges any torch_xla: which of the series' features it has, and if they hold.
"""
