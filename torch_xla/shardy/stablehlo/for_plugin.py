"""The form that this process's plugin reads, and the planner for it."""

from __future__ import annotations

from collections.abc import Callable
import functools
import logging
import os
from typing import Any, Optional

import torch_xla.runtime as xr

from . import dialects, printed, target
from .. import switch
from ..compile.plan import Planner
from ..door import device_plugins, shim
from ..mode import leaves_as_stablehlo, Mode
from .planner import StableHloPlanner

logger = logging.getLogger(__name__)

_STABLEHLO_IS_SET = 'XLA_STABLEHLO_COMPILE is set: programs leave as StableHLO'


def planner(mode: Mode, route: switch.Route) -> Planner:
  """The planner of a mode's programs, in HLO and in StableHLO.

  Raises:
    DoorError: programs leave as StableHLO, and jaxlib is missing.
  """
  if leaves_as_stablehlo(os.environ):
    dialects.check_installed(_STABLEHLO_IS_SET)
  printed.replace_printer()
  if _check not in device_plugins.start_checks:
    device_plugins.start_checks.append(_check)
  # Asked once, when the first program comes: the plugin is open by then.
  return StableHloPlanner(mode, route.planner, route.surroundings,
                          functools.cache(_target_of_process),
                          functools.cache(_takes_stablehlo))


def target_for(
    plugin: Any, attribute: Callable[[str], Optional[dialects.Version]]
) -> Optional[target.Target]:
  """The target of a plugin's programs; None where they leave as HLO.

  Args:
    attribute: as for `target.choose`.

  Raises:
    DoorError: the plugin is to get StableHLO, and it cannot be written.
  """
  if target.takes_stablehlo(plugin):
    dialects.check_installed(
        f"{type(plugin).__name__}.program_format() gives 'mlir'")
  elif leaves_as_stablehlo(os.environ):
    dialects.check_installed(_STABLEHLO_IS_SET)
  else:
    return None
  return target.choose(plugin, attribute)


def _check(plugin: Any) -> None:
  target_for(plugin, shim.plugin_attribute)


def _target_of_process() -> target.Target:
  """The form and version that this process's plugin reads.

  Raises:
    DoorError: as `target.choose`.
  """
  chosen = target.choose(_plugin(), shim.plugin_attribute)
  logger.info('StableHLO as %s: %s', chosen.form.value, chosen.reason)
  return chosen


def _takes_stablehlo() -> bool:
  return target.takes_stablehlo(_plugin())


def _plugin() -> Any:
  return device_plugins.registered(xr.device_type())
