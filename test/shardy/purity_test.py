"""What imports what: no torch on the compile side, and never upwards."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
import enum
import functools
from pathlib import Path
import sys
from typing import NamedTuple

from layer_table import MAY_IMPORT
import processes
import pytest
import torch_xla

_ROOT = Path(__file__).resolve().parents[2]
_SHARDY = 'torch_xla.shardy'
_SPMD = 'torch_xla.distributed.spmd'
_COMMAND = 'torch_xla_shardy'
_CONFORMANCE = 'torch_xla_conformance'

# What needs no torch and no device: it also runs where neither is installed.
_PURE = ('errors', 'warn_once', 'mode', 'sharding', 'hlo', 'v2', 'annotate',
         'compile', 'sdy', 'rewrite', 'stablehlo', 'web_page', 'late_module',
         'process_environment', 'ended_process', 'aot', 'vendor_defaults',
         'gate', _COMMAND, _CONFORMANCE)
# But for these, which ask the runtime what there is to be lowered, and for whom,
# or are the process that runs a script.
_EDGE = (*(f'{_SHARDY}.{name}'
           for name in ('stablehlo.exports', 'stablehlo.for_plugin',
                        'stablehlo.printed', 'aot.running')),
         *(f'{_CONFORMANCE}.{name}'
           for name in ('cases.caching', 'cases.operations', 'cases.training',
                        'device_plugin', 'operations', 'running.server',
                        'torch_modules')))


class When(enum.Enum):
  """When an import happens; TYPING: never while anything runs."""
  IMPORT = enum.auto()
  CALL = enum.auto()
  TYPING = enum.auto()


class Import(NamedTuple):
  """That `importer` imports `imported`, a module or a package."""
  importer: str
  imported: str
  when: When


@functools.lru_cache(maxsize=None)
def _modules() -> dict[str, Path]:
  """The files of the package that are ours, by the names of their modules."""
  packages = {
      name: _ROOT / name.replace('.', '/') for name in (
          _COMMAND, _SHARDY,
          *(f'{_SPMD}.{part}' for part in ('audit', 'metrics', 'policy')))
  }
  # Where it is imported it has copies beside it, see `_original`.
  packages[_CONFORMANCE] = _ROOT / 'conformance'
  found = {}
  for package, folder in packages.items():
    for path in folder.rglob('*.py'):
      parts = path.relative_to(folder).with_suffix('').parts
      found['.'.join((package, *parts)).removesuffix('.__init__')] = path
  return found


def _original(module: str) -> str:
  """What a module is a copy of, as the conformance suite has some."""
  name = module.removeprefix(f'{_CONFORMANCE}.shared.')
  originals = [f'{_SHARDY}.{name}', f'{_COMMAND}.{name}']
  return next((m for m in originals if m in _modules()), module)


def _place(module: str) -> str:
  """The folder that a module lies in, as `MAY_IMPORT` calls it."""
  name = module.removeprefix(f'{_SHARDY}.').removeprefix(f'{_SPMD}.')
  return 'shardy' if module == _SHARDY else name.partition('.')[0]


@functools.lru_cache(maxsize=None)
def _imports() -> tuple[Import, ...]:
  """All imports in the files; of modules that are not ours, too."""
  return tuple(
      Import(name, imported, when)
      for name, path in _modules().items()
      for imported, when in _imports_in(
          ast.parse(path.read_text()), When.IMPORT, name if path.name ==
          '__init__.py' else name.rpartition('.')[0]))


def _imports_in(node: ast.AST, when: When,
                package: str) -> Iterator[tuple[str, When]]:
  for child in ast.iter_child_nodes(node):
    if isinstance(child, ast.Import):
      for alias in child.names:
        yield alias.name, when
    elif isinstance(child, ast.ImportFrom):
      above = package.split('.')[:len(package.split('.')) - child.level + 1]
      base = '.'.join([*(above if child.level else []), child.module or ''])
      for alias in child.names:
        # A module of that package, or what stands in the package itself.
        full = _original(f'{base.rstrip(".")}.{alias.name}')
        yield full if full in _modules() else _original(base.rstrip('.')), when
    inner = when
    if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
      inner = When.CALL
    elif isinstance(child, ast.If) and ast.unparse(
        child.test) == 'TYPE_CHECKING':
      inner = When.TYPING
    yield from _imports_in(child, inner, package)


def _circles(edges: Iterable[tuple[str, str]]) -> list[set[str]]:
  """The sets of modules that all lead to one another."""
  targets: dict[str, set[str]] = {}
  for importer, imported in edges:
    targets.setdefault(importer, set()).add(imported)

  @functools.lru_cache(maxsize=None)
  def reached(start: str) -> frozenset[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
      new = targets.get(todo.pop(), set()) - found
      found |= new
      todo += new
    return frozenset(found)

  circles = {
      frozenset(m
                for m in reached(start)
                if start in reached(m))
      for start in targets
      if start in reached(start)
  }
  return [set(circle) for circle in circles]


def _edges(*when: When) -> Iterator[tuple[str, str]]:
  """From module to module; what imports a module imports its packages first."""
  for importer, imported, happens in _imports():
    if happens in when:
      parts = imported.split('.')
      for end in range(1, len(parts) + 1):
        name = '.'.join(parts[:end])
        # Its own packages are there already, or it would not run.
        if name in _modules() and not f'{importer}.'.startswith(f'{name}.'):
          yield importer, name


def test_no_circle_of_imports():
  assert _circles(_edges(When.IMPORT)) == []


def test_no_circle_of_imports_and_calls():
  assert _circles(_edges(When.IMPORT, When.CALL)) == []


def test_every_place_is_in_the_table():
  assert set(map(_place, _modules())) <= set(MAY_IMPORT)


def test_the_table_goes_down():
  places = list(MAY_IMPORT)
  for place, (imported, called) in MAY_IMPORT.items():
    below = places[:places.index(place)]
    assert set(imported) | set(called) <= set(below), place


@pytest.mark.parametrize('place', MAY_IMPORT)
def test_imports_go_down(place):
  imported, called = MAY_IMPORT[place]
  for one in _imports():
    if _place(one.importer) == place and one.imported in _modules():
      allowed = {place, *imported}
      if one.when is not When.IMPORT:
        allowed |= set(called)
      assert _place(one.imported) in allowed, one


@functools.cache
def _pure_modules() -> list[str]:
  return [
      m for m in _modules() if _place(m) in _PURE and not m.startswith(_EDGE)
  ]


@pytest.mark.parametrize('place', _PURE)
def test_the_compile_side_imports_no_torch(place):
  """Not even when it is called; test_it_runs_without_torch sees the rest."""
  allowed = {*sys.stdlib_module_names, 'numpy', 'google'}
  if place == 'stablehlo':
    allowed.add('jaxlib')
  for one in _imports():
    if one.importer in _pure_modules() and _place(
        one.importer) == place and one.imported not in _modules():
      assert one.imported.partition('.')[0] in allowed, one


_WITHOUT_TORCH = '''
import importlib, sys, types

for name in 'torch', 'torch_xla._XLAC', '_XLAC', 'jax', 'jaxlib':
  sys.modules[name] = None
package = types.ModuleType('torch_xla')
package.__path__ = {path!r}  # Without what its __init__ does.
sys.modules['torch_xla'] = package
for name in {modules!r}:
  importlib.import_module(name)
# That is for those who have a program.
assert 'google.protobuf' not in sys.modules

from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.stablehlo.planner import Planner
for mode in Mode.V2, Mode.SHARDY:
  plan = Planner(mode)(b'', 'hlo', CompileOptions(Partitioner.GSPMD, 1, 8))
  assert plan.attempt().partitioner is Partitioner.GSPMD
'''


def test_it_runs_without_torch():
  """A new process imports these modules, and plans programs by them."""
  modules = list(_pure_modules())
  modules += [f'{_SHARDY}.{m}' for m in ('door', 'door.shim')]
  processes.output_of(
      _WITHOUT_TORCH.format(path=list(torch_xla.__path__), modules=modules))
