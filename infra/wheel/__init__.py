"""Builds the fork's wheel from the official one."""
