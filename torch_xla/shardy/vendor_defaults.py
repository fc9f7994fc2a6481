"""The defaults of a vendor's wheel where the environment sets nothing.

A wheel that was built from a profile (docs/custom-wheels.md) holds `FILE` beside
this module, any other holds none. torch_xla's import begins with `apply`, before
anything reads the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
import dataclasses
import functools
import json
import os
from typing import Optional

from .mode import Mode, SHARDY_VARIABLES, V2_VARIABLE

FILE = 'vendor.json'

# The distribution of torch_xla where no profile gives another one.
_DISTRIBUTION = 'torch_xla'
_MODE_VARIABLES = (*SHARDY_VARIABLES, V2_VARIABLE)
_VARIABLE_OF = {Mode.SHARDY: SHARDY_VARIABLES[0], Mode.V2: V2_VARIABLE}


@dataclasses.dataclass(frozen=True)
class Vendor:
  """The profile of a wheel.

  Attributes:
    distribution: the name of the wheel, as pip knows it.
    version: of the wheel.
    mode: which one to run in.
    environment: further variables.
  """
  distribution: str
  version: str
  mode: Mode
  environment: Mapping[str, str]

  @classmethod
  def from_json(cls, text: str) -> Vendor:
    data = json.loads(text)
    return cls(**{**data, 'mode': Mode(data['mode'])})


@functools.lru_cache(maxsize=None)
def installed() -> Optional[Vendor]:
  """The profile of this wheel; None if it has none."""
  try:
    with open(
        os.path.join(os.path.dirname(__file__), FILE), encoding='utf-8') as f:
      return Vendor.from_json(f.read())
  except FileNotFoundError:
    return None


def distribution() -> str:
  """The name that pip knows this torch_xla by."""
  vendor = installed()
  return vendor.distribution if vendor else _DISTRIBUTION


def defaults(vendor: Vendor, environ: Mapping[str, str]) -> dict[str, str]:
  """The variables that a profile sets in an environment.

  One that is there already stays, empty or not. The mode is the environment's
  as soon as one of its variables is there: XLA_USE_SHARDY=0 is a choice too.
  """
  variables = dict(vendor.environment)
  if vendor.mode in _VARIABLE_OF and not any(name in environ
                                             for name in _MODE_VARIABLES):
    variables[_VARIABLE_OF[vendor.mode]] = '1'
  return {
      name: value
      for name, value in sorted(variables.items())
      if name not in environ
  }


def apply(environ: MutableMapping[str, str]) -> None:
  """Sets what this wheel's profile says, and nothing where there is none."""
  vendor = installed()
  if vendor is not None:
    environ.update(defaults(vendor, environ))


def effective_defaults(vendor: Vendor, started_with: Mapping[str, str],
                       now: Mapping[str, str]) -> dict[str, str]:
  """The variables that have their value from a profile.

  Args:
    vendor: what the profile says.
    started_with: the environment that the process began with.
    now: the environment as it is.
  """
  return {
      name: value
      for name, value in defaults(vendor, started_with).items()
      if now.get(name) == value
  }
