"""Advice for users who lack a package that an extra of torch_xla installs."""

from __future__ import annotations

import importlib.metadata

_PACKAGE = 'torch_xla'


def command(extra: str) -> str:
  """The command that installs an extra.

  It names the distribution that this torch_xla came in, as a vendor's wheel may
  have another name: upstream's would be installed over it.
  """
  packages = importlib.metadata.packages_distributions().get(_PACKAGE)
  # One spelling, as in the docs; pip takes both.
  name = packages[0].replace('-', '_') if packages else _PACKAGE
  return f"pip install '{name}[{extra}]'"
