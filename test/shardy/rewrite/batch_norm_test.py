"""Normalisations written out in HLO: the smallest modules, and what they do."""

from __future__ import annotations

import re

import annotated_modules as modules
import norms
import numpy as np
from printed import assert_printed, computations_of
import programs
import pytest
import torch_xla.runtime as xr
from torch_xla.shardy.rewrite import batch_norm
from torch_xla.shardy.rewrite.hlo_arithmetic import View, view_of

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')

ENVIRONMENT = programs.ENVIRONMENT
_ROWS = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'


@pytest.fixture(scope='module', autouse=True)
def spmd_fixture():
  xr.use_spmd()
  # autograd counts the devices when it first runs, here on the CPU.
  xr.global_runtime_device_count()


def _expand(entry: str, count: int = 1, others: str = '') -> str:
  module = modules.module_of(entry, others)
  assert batch_norm.expand(module) == count
  return computations_of(module)


def _body(entry: str) -> str:
  """What becomes of the entry, whose sums are of one type if there are any."""
  text = _expand(entry)
  others, _, body = text.partition('ENTRY e ')
  assert re.fullmatch(
      r"""(shardy\.add\.1 \(n0: (\w+)\[\], n1: \2\[\]\) -> \2\[\] \{
  n0 = \2\[\] parameter\(0\)
  n1 = \2\[\] parameter\(1\)
  ROOT n2 = \2\[\] add\(n0, n1\)
\}

)?""", others)
  body = body.replace('to_apply=shardy.add.1', 'add')
  return body[body.index('\n'):-1].replace(', metadata={op_name="norm"}', ' #')


def test_training():
  """Its elements are used as they are; what it says of itself, all say."""
  text = _body('''
    x = f32[4,2] parameter(0)
    s = f32[2] parameter(1)
    o = f32[2] parameter(2)
    n = (f32[4,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=0.5,
      feature_index=1, metadata={op_name="norm"}
    y = f32[4,2] get-tuple-element(n), index=0
    v = f32[2] get-tuple-element(n), index=2
    ROOT z = (f32[4,2], f32[2]) tuple(y, v)''')
  assert_printed(
      text, '''\

  x = f32[4,2] parameter(0)
  n3 = f32[] constant(0) #
  n4 = f32[2] reduce(x, n3), dimensions={0}, add #
  n5 = f32[] constant(4) #
  n6 = f32[2] broadcast(n5), dimensions={} #
  n7 = f32[2] divide(n4, n6) #
  n8 = f32[4,2] broadcast(n7), dimensions={1} #
  n9 = f32[4,2] subtract(x, n8) #
  s = f32[2] parameter(1)
  n10 = f32[4,2] multiply(x, x) #
  n11 = f32[2] reduce(n10, n3), dimensions={0}, add #
  n12 = f32[2] divide(n11, n6) #
  n13 = f32[2] multiply(n7, n7) #
  n14 = f32[2] subtract(n12, n13) #
  n15 = f32[] constant(0.5) #
  n16 = f32[2] broadcast(n15), dimensions={} #
  n17 = f32[2] add(n14, n16) #
  n18 = f32[2] rsqrt(n17) #
  n19 = f32[2] multiply(s, n18) #
  n20 = f32[4,2] broadcast(n19), dimensions={1} #
  n21 = f32[4,2] multiply(n9, n20) #
  o = f32[2] parameter(2)
  n22 = f32[4,2] broadcast(o), dimensions={1} #
  n23 = f32[4,2] add(n21, n22) #
  ROOT z = (f32[4,2], f32[2]) tuple(n23, n14)
''')


def test_inference():
  """Computed in f32; the result is the same instruction, with its sharding."""
  text = _body('''
    x = bf16[2,4] parameter(0)
    s = bf16[2] parameter(1)
    n = bf16[2,4] batch-norm-inference(x, s, s, s, s), epsilon=0.5,
      feature_index=0, sharding={replicated}
    ROOT z = bf16[2,4] negate(n)''')
  computed = [
      line.split()[2]
      for line in text.split('\n')
      if re.match(r'  n\d', line) and 'convert' not in line
  ]
  assert {kind.partition('[')[0] for kind in computed} == {'f32'}
  assert re.search(r' n = bf16\[2,4\] convert\(n\d+\), sharding=.replicated',
                   text)


def test_grad():
  """The tuple stays one where it is used itself."""
  text = _body('''
    x = f64[4,2] parameter(0)
    s = f64[2] parameter(1)
    ROOT n = (f64[4,2], f64[2], f64[2]) batch-norm-grad(x, s, s, s, x),
      epsilon=0.5, feature_index=1''')
  assert re.search(
      r'ROOT n = \(f64\[4,2\], f64\[2\], f64\[2\]\) tuple\(n\d+, n\d+, n\d+\)',
      text)


def test_merged_dimensions():
  """Computed in the dimensions that come and go, and the mean is given in those
  that it has."""
  text = _body('''
    x = f32[2,3,4] parameter(0)
    s = f32[6] parameter(1)
    m = f32[1,6,4] reshape(x)
    n = (f32[1,6,4], f32[6], f32[6]) batch-norm-training(m, s, s), epsilon=0.5,
      feature_index=1
    r = f32[1,6,4] get-tuple-element(n), index=0
    y = f32[2,3,4] reshape(r)
    e = f32[6] get-tuple-element(n), index=1
    ROOT z = (f32[2,3,4], f32[6]) tuple(y, e)''')
  assert text.count('f32[2,3] reduce(') == 2
  assert text.count('f32[2,3] reshape(s)') == 2
  mean = re.search(r'(n\d+) = f32\[2,3\] divide', text)[1]
  assert f' = f32[6] reshape({mean})\n' in text


def test_sharding_of_merged_dimensions():
  """What has one stays, and is what others use."""
  text = _expand("""
    x = f32[2,3,4] parameter(0)
    s = f32[6] parameter(1)
    m = f32[1,6,4] reshape(x)
    n = f32[1,6,4] batch-norm-inference(m, s, s, s, s), epsilon=0.5,
      feature_index=1, sharding={replicated}
    ROOT y = f32[2,3,4] reshape(n)""")
  assert re.search(r' n = f32\[1,6,4\] reshape\(n\d+\), sharding=.replicated',
                   text)
  assert 'ROOT y = f32[2,3,4] reshape(n)' in text


def test_element_with_a_sharding():
  """It stays, under its name, for the sharding to be said of."""
  text = _expand(f'''
    x = f32[4,2] parameter(0)
    s = f32[2] parameter(1)
    n = (f32[4,2], f32[2], f32[2]) batch-norm-training(x, s, s), epsilon=0.5,
      feature_index=1
    y = f32[4,2] get-tuple-element(n), index=0, sharding={_ROWS}
    z = f32[4,2] get-tuple-element(n), index=0
    ROOT a = f32[4,2] add(y, z)''')
  made = re.search(
      r'y = f32\[4,2\] reshape\((n\d+)\), sharding=' + re.escape(_ROWS),
      text)[1]
  assert f'ROOT a = f32[4,2] add(y, {made})' in text


def test_inner_computations():
  """A loop and a called one have one addition for each element type."""
  text = _expand(
      '''
    x = f32[4,2] parameter(0)
    h = f16[4,2] convert(x)
    c = f16[4,2] call(h), to_apply=f
    ROOT w = f32[4,2] while(x), condition=stop, body=turn''', 3, '''
f {
  p = f16[4,2] parameter(0)
  one = f16[] constant(1)
  s = f16[2] broadcast(one), dimensions={}
  ROOT n = f16[4,2] batch-norm-inference(p, s, s, s, s), epsilon=0.5,
    feature_index=1
}
stop {
  q = f32[4,2] parameter(0)
  ROOT no = pred[] constant(false)
}
turn {
  b = f32[4,2] parameter(0)
  one = f32[] constant(1)
  s = f32[2] broadcast(one), dimensions={}
  first = (f32[4,2], f32[2], f32[2]) batch-norm-training(b, s, s), epsilon=0.5,
    feature_index=1
  again = f32[4,2] get-tuple-element(first), index=0
  second = (f32[4,2], f32[2], f32[2]) batch-norm-training(again, s, s),
    epsilon=0.5, feature_index=1
  ROOT r = f32[4,2] get-tuple-element(second), index=0
}''')
  assert 'batch-norm' not in text
  assert len(re.findall(r'^shardy\.add', text, re.M)) == 1
  assert len(re.findall(r' reduce\(.*to_apply=shardy\.add\.\d+', text)) == 4


@pytest.mark.parametrize('dtype, dims, more', [
    ('f32', '4,2', 'sharding={{replicated}, {replicated}, {replicated}}'),
    ('f8e5m2', '4,2', ''),
    ('f32', '<=4,2', ''),
])
def test_left_as_it_is(dtype, dims, more):
  """A tuple's sharding, a type of few digits, and a dynamic dimension."""
  more = more and f', {more}'
  module = modules.module_of(f'''
    x = {dtype}[{dims}] parameter(0)
    s = {dtype}[2] parameter(1)
    ROOT n = ({dtype}[{dims}], {dtype}[2], {dtype}[2])
      batch-norm-training(x, s, s), epsilon=0.5, feature_index=1{more}''')
  before = module.SerializeToString()
  assert batch_norm.expand(module) == 0
  assert module.SerializeToString() == before


@pytest.mark.parametrize(
    'dims, feature, sources, view',
    [
        ((4, 2), 1, [(4, 2)], View((4, 2), (1,))),
        ((1, 32, 16), 1, [(8, 4, 16)], View((8, 4, 16), (0, 1))),
        ((1, 32, 15), 1, [(8, 4, 3, 5)], View((8, 4, 3, 5), (0, 1))),
        ((1, 16, 15), 1, [(8, 6, 5)], View((8, 2, 3, 5), (0, 1))),
        ((1, 64, 4, 4), 1, [(8, 8, 4, 4)], View((8, 8, 4, 4), (0, 1))),
        ((8, 16), 0, [(8, 2, 8)], View((8, 2, 8), (0,))),
        # Nothing is merged; the second source is the one that tells.
        ((1, 8, 16), 1, [(8, 16)], View((1, 8, 16), (1,))),
        ((1, 32, 4), 1, [(32, 4), (8, 4, 4)], View((8, 4, 4), (0, 1))),
        # One row, and each of its features is one element.
        # No dimensions are common, or there are no elements.
        ((6, 4), 0, [(4, 6)], View((6, 4), (0,))),
        ((0, 4), 1, [(4, 0)], View((0, 4), (1,))),
        ((1, 1, 6), 1, [(2, 3)], View((2, 3), ())),
    ])
def test_views(dims, feature, sources, view):
  assert view_of(dims, feature, sources) == view


def _run(module, arguments: list[np.ndarray]) -> list[np.ndarray]:
  """What XLA's CPU compiler computes, on one device."""
  import jax
  from jax._src.interpreters import mlir
  from jaxlib import _jax, xla_client
  from jaxlib.mlir import ir
  jax.config.update('jax_platforms', 'cpu')
  device = jax.devices()[0]
  with mlir.make_ir_context():
    program = ir.Module.parse(
        _jax.mlir.hlo_to_stablehlo(module.SerializeToString()))
  executable = device.client.compile_and_load(program,
                                              xla_client.DeviceList((device,)),
                                              xla_client.CompileOptions())
  with jax.enable_x64(True):
    ran = executable.execute_sharded(
        [jax.device_put(a, device) for a in arguments])
    return [
        np.asarray(result).astype(np.float64)
        for result, in ran.disassemble_into_single_device_arrays()
    ]


@pytest.mark.slow
@pytest.mark.parametrize('dims, feature', [
    ((8, 6, 5), 1),
    pytest.param((4, 30), 0, marks=pytest.mark.nightly),
    pytest.param((3, 4, 5, 6), 3, marks=pytest.mark.nightly),
])
@pytest.mark.parametrize('dtype, tolerance', [('f32', 1e-6), ('f64', 1e-14),
                                              ('bf16', 0)])
def test_numbers_are_those_of_xla(dtype, tolerance, dims, feature):
  """To the bit for bf16: XLA's CPU compiler computes it in f32 as well."""
  jnp = pytest.importorskip('jax.numpy', reason='needs jax: it runs programs')
  numpy_type = {'f32': jnp.float32, 'f64': jnp.float64, 'bf16': jnp.bfloat16}
  whole = f'{dtype}[{",".join(map(str, dims))}]'
  part = f'{dtype}[{dims[feature]}]'
  module = modules.module_of(f'''
    x = {whole} parameter(0)
    s = {part} parameter(1)
    o = {part} parameter(2)
    w = {whole} parameter(3)
    n = ({whole}, {part}, {part}) batch-norm-training(x, s, o), epsilon=1e-5,
      feature_index={feature}
    y = {whole} get-tuple-element(n), index=0
    m = {part} get-tuple-element(n), index=1
    v = {part} get-tuple-element(n), index=2
    z = {whole} batch-norm-inference(x, s, o, m, v), epsilon=1e-3,
      feature_index={feature}
    g = ({whole}, {part}, {part}) batch-norm-grad(x, s, m, v, w), epsilon=1e-5,
      feature_index={feature}
    gx = {whole} get-tuple-element(g), index=0
    gs = {part} get-tuple-element(g), index=1
    go = {part} get-tuple-element(g), index=2
    ROOT t = ({whole}, {part}, {part}, {whole}, {whole}, {part}, {part})
      tuple(y, m, v, z, gx, gs, go)''')
  random = np.random.default_rng(5)
  arguments = [
      random.normal(1, size=size).astype(numpy_type[dtype])
      for size in (dims, dims[feature], dims[feature], dims)
  ]
  before = _run(module, arguments)
  assert batch_norm.expand(module) == 3
  after = _run(module, arguments)
  assert len(before) == len(after) == 7
  for one, other in zip(before, after):
    np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_sums_beyond_a_half():
  """The sum of 70,000 ones is more than an f16 can be, and so is the count."""
  pytest.importorskip('jax', reason='needs jax: it runs programs')
  module = modules.module_of("""
    x = f16[70000,1] parameter(0)
    s = f16[1] parameter(1)
    n = (f16[70000,1], f16[1], f16[1]) batch-norm-training(x, s, s),
      epsilon=1e-5, feature_index=1
    y = f16[70000,1] get-tuple-element(n), index=0
    m = f16[1] get-tuple-element(n), index=1
    v = f16[1] get-tuple-element(n), index=2
    ROOT t = (f16[70000,1], f16[1], f16[1]) tuple(y, m, v)""")
  assert batch_norm.expand(module) == 1
  y, mean, _ = _run(
      module, [np.ones((70000, 1), np.float16),
               np.full(1, 0.5, np.float16)])
  assert mean == 1
  assert (y == 0.5).all()


@pytest.mark.parametrize('program, which', norms.RUNS, ids=norms.RUN_IDS)
def test_effect(program, which):
  norms.check(program, which)
