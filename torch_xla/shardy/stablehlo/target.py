"""Chooses in which form and version a plugin gets its StableHLO.

XLA's own client decides by the plugin's attribute `stablehlo_current_version`
(pjrt_c_api_client.cc): the sdy dialect from 1.11.0 on, frontend attributes for
older plugins and for those that say nothing. So it is here. A plugin that reads
the version and not the dialect says so by a method of its DevicePlugin:

    def sharding_form(self) -> str:
      return 'attributes'  # or 'sdy', or 'plain' for one that takes neither
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
from typing import Any, Optional

from ..errors import DoorError
from . import dialects
from .dialects import Version
from .forms import Form

CURRENT_VERSION = 'stablehlo_current_version'
_MINIMUM_VERSION = 'stablehlo_minimum_version'
# The first version of plugins that are sure to register the dialect.
_SDY_SINCE = (1, 11, 0)


@dataclasses.dataclass(frozen=True)
class Target:
  """The form and version that a plugin reads.

  Attributes:
    version: of the artifacts; None where the plugin does not say: that of the
      program that came, or what XLA takes for safe.
    reason: for people: why this form, and this version.
    oldest: the oldest version that it reads, where it says so.
  """
  form: Form
  version: Optional[Version]
  reason: str
  oldest: Version = ()

  def version_for(self, program: bytes) -> Version:
    """The version to write what `program` becomes in."""
    version = (
        self.version or dialects.artifact_version(program) or
        dialects.cautious_version())
    return min(max(version, self.oldest), dialects.current_version())


def choose(plugin: Any, attribute: Callable[[str],
                                            Optional[Version]]) -> Target:
  """The target for a plugin.

  Args:
    plugin: its DevicePlugin, which may have a method `sharding_form`.
    attribute: looks an attribute of its library up.
  """
  version, since = (
      _checked(name, attribute(name))
      for name in (CURRENT_VERSION, _MINIMUM_VERSION))
  form, reason = _form(plugin, version)
  ours, oldest = dialects.current_version(), dialects.oldest_version()
  if since is not None and since > ours:
    raise DoorError(
        f'the plugin reads StableHLO from {dialects.version_text(since)} on, '
        'and the installed jaxlib writes up to '
        f'{dialects.version_text(ours)}; install a newer jaxlib')
  if since is not None and version is not None and since > version:
    raise DoorError(
        f'the plugin reads StableHLO from {dialects.version_text(since)} on '
        f'({_MINIMUM_VERSION}) and up to {dialects.version_text(version)} '
        f'({CURRENT_VERSION}), so none')
  if version is None:
    return Target(form, None,
                  f'{reason}; written in the version that torch_xla sends',
                  since or ())
  if version < oldest:
    raise DoorError(
        f'the plugin reads StableHLO up to {dialects.version_text(version)}, and the installed '
        f'jaxlib writes {dialects.version_text(oldest)} and later; install an older jaxlib'
    )
  why = 'the plugin reads' if version <= ours else 'the installed jaxlib writes'
  written = min(version, ours)
  return Target(
      form, written,
      f'{reason}; written in {dialects.version_text(written)}, the newest that {why}',
      since or ())


def _checked(name: str, version: Optional[Version]) -> Optional[Version]:
  if version is not None and (len(version) != 3 or min(version) < 0):
    raise DoorError(
        f'the attribute {name} of the PJRT plugin is {list(version)}: a version '
        'is three numbers, such as [1, 13, 0]')
  return version


def _form(plugin: Any, version: Optional[Version]) -> tuple[Form, str]:
  override = getattr(plugin, 'sharding_form', None)
  name = override() if override is not None else None
  if name is not None:
    if name not in [form.value for form in Form]:
      raise DoorError(
          f'{type(plugin).__name__}.sharding_form() gives {name!r}; it must '
          'be one of ' + ', '.join(repr(form.value) for form in Form))
    return Form(name), f'{type(plugin).__name__}.sharding_form() says so'
  if version is None:
    return Form.ATTRIBUTES, f'the plugin has no attribute {CURRENT_VERSION}'
  since = dialects.version_text(_SDY_SINCE)
  if version >= _SDY_SINCE:
    return Form.SDY, f'the plugin reads StableHLO {dialects.version_text(version)}, {since} or later'
  return (
      Form.ATTRIBUTES,
      f'the plugin reads StableHLO {dialects.version_text(version)}, older than {since}'
  )


def takes_stablehlo(plugin: Any) -> bool:
  """Tests whether a plugin's `program_format()` asks for StableHLO."""
  method = getattr(plugin, 'program_format', None)
  form = 'hlo' if method is None else method()
  if form not in ('hlo', 'mlir'):
    raise DoorError(
        f'{type(plugin).__name__}.program_format() gives {form!r}; it must '
        "be 'hlo', a program as torch_xla has it, or 'mlir', StableHLO")
  return form == 'mlir'
