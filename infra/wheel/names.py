"""Judges the names that a profile gives: each is None, or why it cannot be."""

from __future__ import annotations

import keyword
import re
import sys

# Modules that Python imports by itself, or has and does not list.
_PYTHONS = sys.stdlib_module_names | {'sitecustomize', 'test', 'usercustomize'}
_NEEDED = ('absl', 'google', 'jax', 'jaxlib', 'libtpu', 'numpy', 'requests',
           'torch', 'yaml')
# Names that torch_xla, XLA or this project gives a meaning to.
TAKEN_DEVICES = ('CONFORMANCE', 'CPU', 'CUDA', 'GPU', 'LIBRARY', 'NEURON',
                 'TPU', 'XLACPU', 'XPU')

_PACKAGE = re.compile(r'[a-z_][a-z0-9_]*')
_DEVICE = re.compile(r'[A-Z][A-Z0-9]*')
_LIBRARY = re.compile(r'[A-Za-z0-9._+-]+\.so(\.[0-9]+)*')
_VARIABLE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')
# Read by the loader, the C library and Python before any module is imported.
_READ_AT_START = re.compile(
    r'(LD_|PYTHON|MALLOC_|GLIBC_TUNABLES$|LC_|LANG$|LANGUAGE$|TZ$).*')
# Read by the libraries of torch, which is imported before any default is set.
_READ_BY_TORCH = re.compile(r'(OMP_|GOMP_|KMP_|MKL_|OPENBLAS_).*')


def wrong_package(name: str) -> str | None:
  """Why a Python package of a wheel cannot have this name."""
  if not _PACKAGE.fullmatch(name):
    return 'is no name of a package: write small letters, digits and _'
  if keyword.iskeyword(name):
    return 'is a keyword, which cannot be imported: rename the folder'
  if name.startswith('__'):
    return 'begins as the names do that Python keeps for itself: rename it'
  if name in _PYTHONS:
    return ("is a module of Python's own, which would be imported in its "
            'place: rename the folder')
  if name in _NEEDED:
    return ('is a package that torch_xla needs, whose files it would '
            'overwrite: rename the folder')
  return None


def wrong_device(name: str) -> str | None:
  """Why a device cannot have this name."""
  if _DEVICE.fullmatch(name) and name not in TAKEN_DEVICES:
    return None
  return (
      'cannot be the name of a device: write capitals and digits, none of ' +
      ', '.join(TAKEN_DEVICES))


def wrong_library(name: str) -> str | None:
  """Why the file of a library cannot have this name in a wheel."""
  if _LIBRARY.fullmatch(name):
    return None
  return ('is no name of a library: write letters, digits, ., _, + and -, with '
          '.so behind them, as in "libacme.so"')


def wrong_variable(name: str) -> str | None:
  """Why a wheel cannot set a variable of this name."""
  if not _VARIABLE.fullmatch(name):
    return 'this is no name of a variable'
  if _READ_AT_START.match(name):
    return ('this is read when a process starts, and a wheel sets variables '
            'later, when torch_xla is imported: take it away, and tell users '
            'to set it')
  if _READ_BY_TORCH.match(name):
    return ('this is read when torch is imported, and a wheel sets variables '
            'later, when torch_xla is: take it away, and tell users to set it')
  return None
