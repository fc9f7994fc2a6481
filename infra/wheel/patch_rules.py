"""Judges what patches make of official files, before it goes into a wheel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import warnings

from infra.errors import BuildError
from infra.patchset.patch import Patch
from infra.wheel import pins

OFFICIAL_INFO = f'{pins.PACKAGE}-{pins.OFFICIAL_VERSION}.dist-info'
VERSION_FILE = f'{pins.PACKAGE}/version.py'


def check_targets(patches: Sequence[Patch]) -> None:
  """Checks that no patch changes what the builder itself writes.

  Raises:
    BuildError: one does; its change would be lost, or be a second .dist-info.
  """
  for patch in patches:
    for change in patch.changes:
      path = change.path
      if path == VERSION_FILE or path.startswith(f'{OFFICIAL_INFO}/'):
        raise BuildError(
            f'patch {patch.name} changes {path}, which the builder writes: '
            'take that change away; version, name, summary, requires and '
            'plugin of a profile say what these files hold')


def check_python(files: Mapping[str, bytes],
                 by: Mapping[str, Sequence[str]]) -> None:
  """Checks that each patched module is Python still.

  Args:
    files: the patched files.
    by: the patches of each of them.

  Raises:
    BuildError: one is not.
  """
  for name, data in files.items():
    if name.endswith('.py'):
      try:
        with warnings.catch_warnings():
          warnings.simplefilter('ignore')  # They are the module's own affair.
          compile(data, '<module>', 'exec', dont_inherit=True)
      except SyntaxError as error:
        raise BuildError(
            f'{name}, as patched by {", ".join(by[name])}, is no Python: line '
            f'{error.lineno}: {error.msg}: correct the patch') from None
