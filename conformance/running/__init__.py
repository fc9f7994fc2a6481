"""A process for each case, forked from one that has imported torch_xla."""
