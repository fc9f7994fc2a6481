"""Which torch, torch_xla, libtpu, jaxlib and plugin belong together."""

from __future__ import annotations

from collections.abc import Mapping
import importlib.metadata
import re
import subprocess
import sys
from typing import Optional

from .. import vendor_defaults
from ..door import shim
from ..ended_process import signal_name
from .report import ERROR, Judgement, OK, one_line, WARNING

# torch_xla 2.9.0 was built with this PJRT API; the shim refuses plugins older
# than _OLDEST_PLUGIN (csrc/pjrt_shardy/pjrt_abi.h).
RUNTIME_API = (0, 75)
_OLDEST_PLUGIN = (0, 57)
_PLUGIN_SECONDS = 60
# Loading a plugin can abort, take a device or print: a process of its own. The
# struct is the head of PJRT_Api: size, extensions, then PJRT_Api_Version.
_READ_VERSION = '''
import ctypes, sys
class Head(ctypes.Structure):
  _fields_ = [('size', ctypes.c_size_t), ('extensions', ctypes.c_void_p),
              ('version_size', ctypes.c_size_t),
              ('version_extensions', ctypes.c_void_p),
              ('major', ctypes.c_int), ('minor', ctypes.c_int)]
try:
  library = ctypes.CDLL(sys.argv[1])
  get = library.GetPjrtApi
except OSError as e:
  sys.exit(f'cannot be loaded: {e}')
except AttributeError:
  sys.exit('is no PJRT plugin: it has no GetPjrtApi')
get.restype = ctypes.POINTER(Head)
head = get()
if not head:
  sys.exit('is no working PJRT plugin: GetPjrtApi gives null')
print('pjrt-api', head.contents.major, head.contents.minor, flush=True)
'''

# By way of the shim, which knows the layouts of PJRT's structs.
_READ_ATTRIBUTE = '''
import ctypes, sys
shim, library, name = sys.argv[1:]
shim, message = ctypes.CDLL(shim), ctypes.create_string_buffer(4096)
if shim.PjrtShardy_Open(library.encode(), message, ctypes.c_size_t(4096)):
  sys.exit(message.value.decode(errors='replace'))
values, count = (ctypes.c_int64 * 8)(), ctypes.c_size_t()
code = shim.PjrtShardy_PluginAttribute(name.encode(), values,
                                       ctypes.c_size_t(8), ctypes.byref(count))
if code not in (0, 5):  # 5: there is none.
  sys.exit(f'does not tell its attribute {name} as integers (PJRT error {code})')
print('attribute', *values[:0 if code else count.value], flush=True)
'''


class PluginError(RuntimeError):
  """A library is not a PJRT plugin that can be loaded."""


def api_version(library: str) -> tuple[int, int]:
  """The PJRT API version, (major, minor), of the plugin at `library`.

  Raises:
    PluginError: it cannot be loaded, is no PJRT plugin, or dies or hangs.
  """
  match = _read(library, r'^pjrt-api (-?\d+) (-?\d+)$', _READ_VERSION, library)
  return int(match[1]), int(match[2])


def attribute(library: str, name: str) -> Optional[tuple[int, ...]]:
  """An attribute of the plugin at `library`; None if it has none of that name.

  Raises:
    PluginError: as `api_version`.
  """
  match = _read(library, r'^attribute(.*)$', _READ_ATTRIBUTE, shim.LIBRARY_PATH,
                library, name)
  return tuple(map(int, match[1].split())) or None


def _read(library: str, pattern: str, *script: str) -> re.Match[str]:
  """The output of a script about a plugin, in a process of its own."""
  try:
    process = subprocess.run([sys.executable, '-c', *script],
                             stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE,
                             text=True,
                             errors='replace',
                             timeout=_PLUGIN_SECONDS,
                             check=False)
  except subprocess.TimeoutExpired:
    raise PluginError(
        f'{library} does not finish loading in {_PLUGIN_SECONDS} s') from None
  match = re.search(pattern, process.stdout, re.MULTILINE)
  if match:
    return match
  if process.returncode < 0:
    raise PluginError(f'{library} kills the process that loads it '
                      f'({signal_name(-process.returncode)})')
  last = process.stderr.strip().splitlines()[-1:]
  raise PluginError(f'{library} ' + one_line(
      last[0] if last else f'ends the process (status {process.returncode})'))


def _numbers(version: str) -> tuple[int, ...]:
  """The release numbers of a version: (2, 9, 0) of '2.9.0+cu128'."""
  return tuple(int(n) for n in re.findall(r'\d+', version.split('+')[0]))


def installed(package: str) -> Optional[str]:
  """The installed version of `package`; None if it is not installed."""
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return None


def pins() -> Mapping[str, str]:
  """The versions that torch_xla's metadata pin with `==`, extras included."""
  try:
    lines = importlib.metadata.requires(vendor_defaults.distribution()) or []
  except importlib.metadata.PackageNotFoundError:
    return {}
  matches = [re.match(r'([\w.-]+)\s*\(?==\s*([\w.+]+)', line) for line in lines]
  return {m[1]: m[2] for m in matches if m}


def judge_torch(torch: str, torch_xla: str) -> Judgement:
  """Checks that torch `torch` and torch_xla `torch_xla` are of one release."""
  pair = f'torch {torch} with torch_xla {torch_xla}'
  if _numbers(torch)[:2] == _numbers(torch_xla)[:2]:
    return OK, pair
  release = '.'.join(map(str, _numbers(torch_xla)[:2]))
  return (ERROR, pair + ': they are not of one release',
          f"torch_xla is built for one release of torch; pip install "
          f"'torch=={release}.*'")


def judge_torch_xla(imported: str, in_metadata: Optional[str]) -> Judgement:
  """Checks that the package that runs is the one that pip knows of."""
  if in_metadata is None:
    return (WARNING, f'torch_xla {imported} runs, but pip knows of none',
            'install the wheel, so that versions can be compared')
  if _numbers(imported)[:3] == _numbers(in_metadata)[:3]:
    return OK, f'torch_xla {in_metadata}'
  return (
      ERROR, f'torch_xla {imported} runs, but pip knows of {in_metadata}',
      'two installations are mixed; uninstall torch_xla until none is left, '
      'then install one')


def judge_package(package: str, version: Optional[str], pinned: Optional[str],
                  needed: bool) -> Judgement:
  """Checks that an optional package goes with this torch_xla.

  Args:
    package: 'libtpu' or 'jaxlib'.
    version: what is installed; None for nothing.
    pinned: what torch_xla's metadata pin; None if they do not say.
    needed: whether this process uses it.
  """
  if version is None:
    return OK, f'{package} is not installed'
  title = f'{package} {version}'
  if pinned is None or _numbers(version) == _numbers(pinned):
    return OK, title
  title += f', while torch_xla pins {pinned}'
  if not needed:
    return OK, title + '; not used here'
  older = _numbers(version) < _numbers(pinned)
  status = ERROR if older else WARNING
  return status, title, f"pip install '{package}=={pinned}'"


def judge_plugin(library: str, mode_is_on: bool) -> Judgement:
  """Checks that the plugin at `library` loads and has our PJRT API."""
  try:
    version = api_version(library)
  except PluginError as e:
    return (
        ERROR, str(e),
        'name a PJRT plugin: TPU_LIBRARY_PATH for a TPU, PJRT_LIBRARY_PATH for '
        'PJRT_DEVICE=LIBRARY, library_path() of the registered plugin for any '
        'other device')
  text, ours = ('.'.join(map(str, v)) for v in (version, RUNTIME_API))
  versions = f'{library} speaks PJRT API {text}, torch_xla {ours}'
  if version[0] != RUNTIME_API[0]:
    return (ERROR, versions,
            'their major versions must be the same: use another plugin')
  if mode_is_on and version < _OLDEST_PLUGIN:
    oldest = '.'.join(map(str, _OLDEST_PLUGIN))
    return (ERROR, versions + f'; the shim needs {oldest} or later',
            'use a newer plugin, or switch the mode off')
  if not mode_is_on and version > RUNTIME_API:
    return (
        WARNING,
        versions + '; a newer plugin may refuse structs of the older size',
        'if it does, switch a mode on (XLA_SHARDING_V2=1): the shim then fits '
        'them')
  return OK, versions
