"""The variants that are compared: wheels, and their settings."""

import compileall
import dataclasses
from pathlib import Path
import shutil
import sys
import sysconfig
import tempfile
from typing import Callable, Dict

from infra.errors import BuildError
from infra.wheel import official, pins

from .errors import BenchmarkError

ROOT = Path(__file__).resolve().parent.parent
_STAMP = 'unpacked-from'

# On every variant. The demo model's module switches Shardy on unless told.
_ENVIRONMENT = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_USE_SHARDY': '0',
    'TF_CPP_MIN_LOG_LEVEL': '2',
}
# Where times mean nothing, most of a process would be XLA's optimization.
QUICK = {'XLA_FLAGS': '--xla_backend_optimization_level=0'}


@dataclasses.dataclass(frozen=True)
class Variant:
  """One column of a figure.

  Attributes:
    name: the column's head.
    path: the folder that holds the variant's torch_xla package.
    version: the version which that package must have.
    settings: environment variables of its processes.
  """
  name: str
  path: Path
  version: str
  settings: Dict[str, str] = dataclasses.field(default_factory=dict)

  def environment(self) -> Dict[str, str]:
    return {**_ENVIRONMENT, **self.settings}


class Wheels:
  """Makes variants of the official wheel and of ours.

  Both packages are first on PYTHONPATH, so that neither is found sooner.

  Args:
    settings: environment variables of all variants.
  """

  def __init__(self, say: Callable[[str], None], **settings: str):
    self._official = unpack_official(say)
    self._ours = Path(sysconfig.get_paths()['platlib'])
    self._settings = settings

  def official(self, name: str = 'official', **settings: str) -> Variant:
    return Variant(name, self._official, pins.OFFICIAL_VERSION, {
        **self._settings,
        **settings
    })

  def ours(self, name: str = 'ours', **settings: str) -> Variant:
    return Variant(name, self._ours, pins.VERSION, {
        **self._settings,
        **settings
    })


def unpack_official(say: Callable[[str], None]) -> Path:
  """The folder with the official wheel's contents, unpacked once.

  Raises:
    BenchmarkError: the wheel cannot be had, or is not the pinned one.
  """
  python = f'{sys.version_info.major}.{sys.version_info.minor}'
  target = ROOT / 'build' / 'official' / f'cp{python.replace(".", "")}'
  stamp = target / _STAMP
  expected = pins.OFFICIAL_SHA256.get(python, '')
  if stamp.exists() and stamp.read_text() == expected:
    return target
  try:
    wheel = official.official_wheel(python, official.default_cache(ROOT), say)
    archive = official.open_wheel(wheel)
  except BuildError as error:
    raise BenchmarkError(
        f'no official wheel to compare with: {error}') from None
  say(f'unpacking {wheel.name}')
  target.parent.mkdir(parents=True, exist_ok=True)
  # Moved to its place only when it is whole.
  with tempfile.TemporaryDirectory(dir=target.parent) as folder:
    unpacked = Path(folder) / 'wheel'
    with archive:
      archive.extractall(unpacked)
    # pip does this on installing, and import time is one of the figures.
    compileall.compile_dir(unpacked, quiet=2, stripdir=str(unpacked))
    (unpacked / _STAMP).write_text(expected)
    shutil.rmtree(target, ignore_errors=True)
    unpacked.rename(target)
  return target
