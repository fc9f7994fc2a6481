"""The environment that a compiled program depends on.

The names made here keep executables apart that were made under other rules:
by another version of the fork, in another mode, by another plugin, or, where
machine code is made for the host's own processor, for another processor.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import re

from ..hlo import messages
from .errors import CacheError

# What compilers read from the environment behind the options' back.
_COMPILER_VARIABLES = ('XLA_FLAGS', 'LIBTPU_INIT_ARGS')
_TPU_LIBRARY_VARIABLE = 'TPU_LIBRARY_PATH'


def directory_name() -> str:
  """The name of the directory for this process's rules.

  '<version of torch_xla>_<mode>_<device>_<plugin's version>', and for the CPU
  '_<digest of the processor's features>'. The plugin's version is that of the
  package it comes in, for XLA's CPU plugin and for libtpu. A library of any
  other origin is named by its contents: nothing else is sure to change with it.
  """
  import torch_xla
  from torch_xla.experimental import plugins
  import torch_xla.runtime as xr

  from ..door import device_plugins
  from ..mode import current_mode
  device = xr.device_type()
  registered = plugins._plugin_registry.get(device)
  if not isinstance(registered, device_plugins.DoorPlugin):
    raise CacheError(
        f'PJRT_DEVICE={device} has no plugin behind the door, so its programs '
        'cannot be cached; set PJRT_DEVICE before torch_xla is imported')
  parts = [torch_xla.__version__, current_mode().value, device]
  if device == device_plugins.CPU_DEVICE:
    parts += [_package_version('xla-cpu-pjrt'), _processor()]
  elif device == 'TPU' and not os.environ.get(_TPU_LIBRARY_VARIABLE):
    parts.append(_package_version('libtpu'))
  else:
    parts.append(_file_digest(registered.inner.library_path()))
  return '_'.join(re.sub(r'[^A-Za-z0-9.+-]', '-', part) for part in parts)


def program_key(rules: str, program_format: str, program: bytes,
                options: bytes) -> str:
  """The name of one program's entry; only while the runtime is up."""
  if program_format == 'hlo':
    with contextlib.suppress(ValueError):  # The backend refuses it.
      program = messages.with_sorted_maps(program)
  digest = hashlib.sha256()
  for part in (rules, *_environment(), program_format):
    digest.update(b'%d:' % len(part) + part.encode())
  for data in (options, program):
    digest.update(b'%d:' % len(data) + data)
  return digest.hexdigest()


def _environment() -> tuple[str, ...]:
  return (*(os.environ.get(name, '') for name in _COMPILER_VARIABLES),
          *_topology())


@functools.lru_cache(maxsize=None)
def _topology() -> tuple[str, ...]:
  """The platform's own version, with the hardware's kind, and its size.

  Not this process's place in it: readers on other hosts run the same programs.
  """
  import torch_xla
  import torch_xla.runtime as xr
  return (str(torch_xla._XLAC._xla_get_platform_version()),
          str(xr.global_runtime_device_count()), str(xr.process_count()))


def _package_version(name: str) -> str:
  try:
    return f'{name}-{importlib.metadata.version(name)}'
  except importlib.metadata.PackageNotFoundError:
    raise CacheError(
        f'the package {name} is not installed, so the version of the plugin '
        'that would name the cache is unknown; install it') from None


def _file_digest(path: str) -> str:
  digest = hashlib.sha256()
  try:
    with open(path, 'rb') as f:
      while block := f.read(1 << 20):
        digest.update(block)
  except OSError as e:
    raise CacheError(f"cannot read the plugin's library {path}: {e.strerror}; "
                     'its contents name the cache') from e
  return digest.hexdigest()[:16]


def _processor() -> str:
  """A digest of the processor's model and features, as Linux lists them."""
  with open('/proc/cpuinfo', encoding='utf-8', errors='replace') as f:
    first = f.read().split('\n\n')[0]
  # Others, such as the clock, change from one reading to the next.
  lines = [
      line for line in first.splitlines()
      if re.match(r'(model name|flags|Features|CPU part)\s*:', line)
  ]
  return hashlib.sha256('\n'.join(lines).encode()).hexdigest()[:8]
