"""The form that this process's plugin reads, and the planner for it."""

from __future__ import annotations

from collections.abc import Callable
import functools
import logging
import os
from typing import Any, Optional

import torch_xla.runtime as xr

from . import dialects, printed, target
from ..bind import binder
from ..compile.plan import Surroundings
from ..door import device_plugins, shim
from ..mode import current_mode, leaves_as_stablehlo, Mode
from ..rewrite import pipeline
from .planner import Planner

logger = logging.getLogger(__name__)

_STABLEHLO_IS_SET = 'XLA_STABLEHLO_COMPILE is set: programs leave as StableHLO'


def surroundings() -> Surroundings:
  """The facts of this process that plans depend on."""
  return Surroundings(
      binder.names.get,
      binder.meshes.ordered,
      # Asked once, when the first program comes: the plugin is open by then.
      functools.cache(lambda: pipeline.disabled_rewrites(_plugin())),
      binder.lost)


def planner(mode: Mode, known: Surroundings) -> Planner:
  """The planner of a mode's programs, in HLO and in StableHLO.

  Raises:
    DoorError: programs leave as StableHLO, and jaxlib is missing.
  """
  if leaves_as_stablehlo(os.environ):
    dialects.check_installed(_STABLEHLO_IS_SET)
  printed.replace_printer()
  if _check not in device_plugins.start_checks:
    device_plugins.start_checks.append(_check)
  return Planner(mode, known,
                 functools.cache(lambda: target.takes_stablehlo(_plugin())),
                 functools.cache(_target_of_process))


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
  if current_mode() is Mode.SHARDY:
    pipeline.disabled_rewrites(plugin)
  target_for(plugin, shim.plugin_attribute)


def _target_of_process() -> target.Target:
  """The form and version that this process's plugin reads.

  Raises:
    DoorError: as `target.choose`.
  """
  chosen = target.choose(_plugin(), shim.plugin_attribute)
  logger.info('StableHLO as %s: %s', chosen.form.value, chosen.reason)
  return chosen


def _plugin() -> Any:
  return device_plugins.registered(xr.device_type())
