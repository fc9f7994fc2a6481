"""Judges the names that a profile gives: each is None, or why it cannot be."""

from __future__ import annotations

import keyword
import re
import sys

from infra.wheel.requirement import normal_name

# What torch_xla needs or offers to need, what these need, and what installs
# them; and the packages of those whose package is not called as they are.
_UPSTREAM = ('absl-py', 'certifi', 'charset-normalizer', 'filelock', 'fsspec',
             'idna', 'jax', 'jaxlib', 'jinja2', 'libtpu', 'markupsafe',
             'ml-dtypes', 'mpmath', 'networkx', 'numpy', 'nvidia', 'opt-einsum',
             'pip', 'protobuf', 'pyyaml', 'requests', 'scipy', 'setuptools',
             'sympy', 'torch', 'tpu-info', 'triton', 'typing-extensions',
             'urllib3', 'wheel', 'xla-cpu-pjrt')
_PACKAGES_OF = {
    'absl-py': ('absl',),
    'protobuf': ('google',),
    'pyyaml': ('yaml', '_yaml'),
    'setuptools': ('setuptools', 'pkg_resources', '_distutils_hack'),
    'sympy': ('sympy', 'isympy'),
    'torch': ('functorch', 'torch', 'torchgen'),
    'xla-cpu-pjrt': ('xla_plugins',),
}
# torch needs a dozen that begin so.
_NVIDIA = 'nvidia-'
# Modules that Python imports by itself, or has and does not list.
_PYTHONS = sys.stdlib_module_names | {'sitecustomize', 'test', 'usercustomize'}
# Names that torch_xla, XLA or this project gives a meaning to.
TAKEN_DEVICES = ('CONFORMANCE', 'CPU', 'CUDA', 'GPU', 'LIBRARY', 'NEURON',
                 'TPU', 'XLACPU', 'XPU')

_DISTRIBUTION = re.compile(r'[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?')
_PACKAGE = re.compile(r'[a-z_][a-z0-9_]*')
_DEVICE = re.compile(r'[A-Z][A-Z0-9]*')
_LIBRARY = re.compile(r'[A-Za-z0-9._+-]+\.so(\.[0-9]+)*')
_VARIABLE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')
# Read by the loader, the C library and Python before any module is imported.
_READ_AT_START = re.compile(
    r'(LD_|PYTHON|MALLOC_|GLIBC_TUNABLES$|LC_|LANG$|LANGUAGE$|TZ$).*')
# Read by the libraries of torch, which is imported before any default is set.
_READ_BY_TORCH = re.compile(r'(OMP_|GOMP_|KMP_|MKL_|OPENBLAS_).*')


def wrong_distribution(name: str) -> str | None:
  """Why a wheel cannot have this name."""
  if not _DISTRIBUTION.fullmatch(name):
    return ('is no name of a distribution: write letters, digits, -, _ and ., '
            'as in "acme-torch-xla"')
  if normal_name(name) in _UPSTREAM or normal_name(name).startswith(_NVIDIA):
    return (
        'is what torch_xla needs: pip would take your wheel for it; write a '
        'name of your own')
  return None


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
  for distribution in _UPSTREAM:
    if name in _PACKAGES_OF.get(distribution,
                                (distribution.replace('-', '_'),)):
      return (f'is a package of {distribution}, whose files it would '
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
