"""What jax writes of the same mesh, spec and constraint, compared as text.

jax runs in a process of its own. Of its modules three things are compared: the
mesh, the attribute of an argument that is placed, and a constraint. Ours are
compared without priorities, which jax has no word for.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import re
from typing import Optional

import mlir_modules as modules
import processes
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec('jax') is None, reason='needs jax: its texts')

OPEN = '?'


@dataclasses.dataclass(frozen=True)
class Case:
  """A spec over a mesh, and what is written of it.

  Attributes:
    spec: for each dimension of two axis names; OPEN is jax's P.UNCONSTRAINED,
      and for us a priority on a dimension that is not split.
    argument: None where jax takes no such argument.
    jax: what jax writes of the mesh, where that is not `mesh`.
    why: jax writes something else.
  """
  shape: tuple[int, ...]
  names: tuple[str, ...]
  spec: tuple
  mesh: str
  argument: Optional[str]
  constraint: str
  device_ids: Optional[tuple[int, ...]] = None
  jax: Optional[tuple[str, Optional[str], str]] = None
  why: str = ''

  @property
  def texts(self) -> tuple[str, Optional[str], str]:
    return self.mesh, self.argument, self.constraint


def _case(shape, names, spec, mesh, dims, **others) -> Case:
  argument = None if OPEN in spec else f'#sdy.sharding<@mesh, {dims}>'
  return Case(shape, names, spec, f'sdy.mesh @mesh = <{mesh}>', argument,
              f'<@mesh, {dims}>', **others)


_XY, _2X4 = ('x', 'y'), '["x"=2, "y"=4]'
_CASES = [
    _case((2, 4), _XY, (None, None), _2X4, '[{}, {}]'),
    _case((2, 4), _XY, ('x', None), _2X4, '[{"x"}, {}]'),
    _case((2, 4), _XY, (None, 'x'), _2X4, '[{}, {"x"}]'),
    _case((2, 4), _XY, ('x', 'y'), _2X4, '[{"x"}, {"y"}]'),
    _case((2, 4), _XY, ('y', 'x'), _2X4, '[{"y"}, {"x"}]'),
    _case((2, 4), _XY, (('x', 'y'), None), _2X4, '[{"x", "y"}, {}]'),
    _case((2, 4), _XY, (None, ('y', 'x')), _2X4, '[{}, {"y", "x"}]'),
    _case((8,), ('data',), ('data', None), '["data"=8]', '[{"data"}, {}]'),
    _case((2, 2, 2), ('a', 'b', 'c'), (('c', 'a'), 'b'),
          '["a"=2, "b"=2, "c"=2]', '[{"c", "a"}, {"b"}]'),
    # An axis of size 1 is named where it stands.
    _case((1, 8), _XY, ('x', 'y'), '["x"=1, "y"=8]', '[{"x"}, {"y"}]'),
    _case((8, 1), _XY, (('x', 'y'), None), '["x"=8, "y"=1]',
          '[{"x", "y"}, {}]'),
    _case((2, 4), ('data-1', 'model.x'), ('model.x', None),
          '["data-1"=2, "model.x"=4]', '[{"model.x"}, {}]'),
    _case((2, 4), _XY, ('x', OPEN), _2X4, '[{"x"}, {?}]'),
    _case((2, 4), _XY, (OPEN, ('y', 'x')), _2X4, '[{?}, {"y", "x"}]'),
    _case((2, 4), _XY, (OPEN, OPEN), _2X4, '[{?}, {?}]'),
    _case((2, 4), _XY, (OPEN, None), _2X4, '[{?}, {}]'),
    _case((2, 4), _XY, ('y', 'x'),
          _2X4 + ', device_ids=[0, 2, 1, 3, 7, 6, 5, 4]', '[{"y"}, {"x"}]',
          device_ids=(0, 2, 1, 3, 7, 6, 5, 4),
          jax=(f'sdy.mesh @mesh = <{_2X4}>',
               '#sdy.sharding<@mesh, [{"y"}, {"x"}]>',
               '<@mesh, [{"y"}, {"x"}]>'),
          why='jax says the order of its mesh in the device assignment; '
          "torch_xla's is the plain one in every program"),
    _case((2, 4), ('a b', 'é'), ('é', None), '["axis_0"=2, "axis_1"=4]',
          '[{"axis_1"}, {}]',
          jax=(r'sdy.mesh @mesh = <["a b"=2, "\C3\A9"=4]>',
               r'#sdy.sharding<@mesh, [{"\C3\A9"}, {}]>',
               r'<@mesh, [{"\C3\A9"}, {}]>'),
          why='ours are the same on the HLO route and in frontend attributes, '
          'where text is in text: names that need quoting there are made up'),
]  # yapf: disable

_JAX = '''
import json, re, sys
import numpy as np
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.config.update('jax_use_shardy_partitioner', True)
zeros = np.zeros((8, 8), np.float32)

def lowered(function, **options):
  return jax.jit(function, **options).lower(zeros).as_text()

told = []
for shape, names, ids, spec in json.loads({cases!r}):
  devices = np.array(jax.devices())[ids or range(8)].reshape(shape)
  entries = [P.UNCONSTRAINED if e == '?' else
             tuple(e) if isinstance(e, list) else e for e in spec]
  sharding = NamedSharding(Mesh(devices, tuple(names)), P(*entries))
  constrained = lowered(
      lambda a: jax.lax.with_sharding_constraint(a * 2, sharding))
  try:
    placed = lowered(lambda a: a * 2, in_shardings=sharding)
  except ValueError as e:
    assert 'Unconstrained dims are not allowed' in str(e), e
    placed = None
  told.append([constrained, placed])
print(json.dumps(told))
'''


@functools.lru_cache(maxsize=1)
def _jax_modules() -> list[tuple[str, Optional[str]]]:
  """The text of a constraint's module, and of an argument's, for each case."""
  cases = json.dumps([(c.shape, c.names, c.device_ids, c.spec) for c in _CASES])
  told = processes.output_of(
      _JAX.format(cases=cases),
      JAX_PLATFORMS='cpu',
      XLA_FLAGS='--xla_force_host_platform_device_count=8')
  return json.loads(told.splitlines()[-1])


def _mesh_in(module: str) -> str:
  mesh, = re.findall(r'sdy\.mesh @.*', module)
  # jax says the mesh again, in an attribute of StableHLO's, which has another
  # reader in view than Shardy; what it says is the same.
  return re.sub(r' \{stablehlo\.mesh = .*\}$', '', mesh)


def _argument_in(module: str) -> str:
  said, = re.findall(r'%arg0: tensor<8x8xf32> \{sdy\.sharding = (#sdy.*?>)\}\)',
                     module)
  return said


def _constraint_in(module: str) -> str:
  said, = re.findall(r'sdy\.sharding_constraint %\w+ (<.*>) : tensor', module)
  return said


def _ours(case: Case) -> tuple[str, str, str]:
  """The module of one argument that is placed so and constrained so again."""
  mesh = UserMesh.from_devices(case.shape, case.names, case.device_ids)
  spec = [
      None if entry is None or entry == OPEN else tuple(
          map(case.names.index, (entry,) if isinstance(entry, str) else entry))
      for entry in case.spec
  ]
  priority = tuple(3 if entry == OPEN else None for entry in case.spec)
  said = Annotation.from_spec(mesh, spec,
                              priority if OPEN in case.spec else None)
  module = modules.main(
      f'%arg0: F {{mhlo.sharding = "{said.sharding}"}}', 'tensor<f32>, F', f'''
    %b = {modules.bind(Annotation.from_spec(mesh, spec, None), of=('%arg0',))}
    %k = {modules.tag(said, '%arg0')}
    %c = {modules.sharding_call('%k', str(said.sharding))}
    return %b, %c : tensor<f32>, F''')
  module, _ = modules.lower(module)
  text = modules.shown(module).replace('F', modules.F)
  assert text.count('}p3') == case.spec.count(OPEN)
  text = text.replace('}p3', '}')
  return _mesh_in(text), _argument_in(text), _constraint_in(text)


_IDS = [f'{c.shape} {c.spec}{c.device_ids or ""}' for c in _CASES]


@pytest.mark.parametrize('number', range(len(_CASES)), ids=_IDS)
def test_as_jax_does(number):
  case = _CASES[number]
  constrained, placed = _jax_modules()[number]
  theirs = (_mesh_in(constrained), placed and
            _argument_in(placed), _constraint_in(constrained))
  assert placed is None or _mesh_in(placed) == theirs[0]
  assert theirs == (case.jax or case.texts)
  assert bool(case.jax) == bool(case.why)


@pytest.mark.parametrize('case', _CASES, ids=_IDS)
def test_as_we_do(case):
  """An argument that jax does not take is stored closed with us."""
  mesh, argument, constraint = _ours(case)
  assert (mesh, constraint) == (case.mesh, case.constraint)
  if case.argument is None:
    assert argument == '#sdy.sharding' + constraint.replace('?', '')
  else:
    assert argument == case.argument
