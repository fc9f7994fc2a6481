"""What this process's plugin reads, and the planner that gives it that."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

import torch_xla.runtime as xr
from torch_xla.experimental import plugins

from . import dialects, target
from .. import switch
from ..compile.plan import Planner
from ..door import shim
from ..door.device_plugins import DoorPlugin
from ..mode import leaves_as_stablehlo, Mode
from .planner import StableHloPlanner

logger = logging.getLogger(__name__)


def planner(mode: Mode, route: switch.Route) -> Planner:
  """The planner of a mode's programs, in HLO and in StableHLO.

  Raises:
    DoorError: programs leave as StableHLO, and jaxlib is missing.
  """
  if leaves_as_stablehlo(os.environ):
    dialects.check_installed(
        'XLA_STABLEHLO_COMPILE is set: programs leave as StableHLO')
  names_of = getattr(route.planner, 'names_of', lambda of: ())
  return StableHloPlanner(mode, route.planner, names_of, target_of_process,
                          _takes_stablehlo)


@functools.lru_cache(maxsize=1)
def target_of_process() -> target.Target:
  """Raises:

    DoorError: as `target.choose`.
  """
  chosen = target.choose(_plugin(), shim.plugin_attribute)
  logger.info('StableHLO as %s: %s', chosen.form.value, chosen.reason)
  return chosen


@functools.lru_cache(maxsize=1)
def _takes_stablehlo() -> bool:
  return target.takes_stablehlo(_plugin())


def _plugin() -> Any:
  """The device plugin whose library is behind the door."""
  registered = plugins._plugin_registry.get(xr.device_type())
  return registered.inner if isinstance(registered, DoorPlugin) else registered
