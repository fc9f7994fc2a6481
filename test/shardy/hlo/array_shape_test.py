"""Shapes of arrays: XLA's printer judges the names and numbers of types."""

import pytest
from torch_xla.shardy.hlo import array_shape, messages, protos

_SIZES = {
    'pred': 1,
    's8': 1,
    's16': 2,
    's32': 4,
    's64': 8,
    'u8': 1,
    'u16': 2,
    'u32': 4,
    'u64': 8,
    'f16': 2,
    'bf16': 2,
    'f32': 4,
    'f64': 8,
    'c64': 8,
    'c128': 16,
    'f8e5m2': 1,
    'f8e4m3fn': 1,
    'f8e4m3b11fnuz': 1,
    'f8e5m2fnuz': 1,
    'f8e4m3fnuz': 1,
    'f8e4m3': 1,
    'f8e3m4': 1,
    'f8e8m0fnu': 1,
}
# Of five.
_SMALL = {'s2': 2, 'u2': 2, 's4': 3, 'u4': 3, 'f4e2m1fn': 3}


def _shapes_of(text: str) -> bytes:
  """The serialised shape of a program's only instruction."""
  hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(
          f'HloModule m\n\nENTRY e {{\n  ROOT p0 = {text} parameter(0)\n}}\n').
      as_serialized_hlo_module_proto())
  return module.computations[0].instructions[0].shape


@pytest.mark.parametrize('dtype, size', _SIZES.items())
def test_types(dtype, size):
  shape, = array_shape.arrays_of(_shapes_of(f'{dtype}[3,5]{{1,0}}'))
  assert str(shape) == f'{dtype}[3,5]'
  assert shape.dims == (3, 5)
  assert shape.nbytes == 15 * size


@pytest.mark.parametrize('dtype, nbytes', _SMALL.items())
def test_parts_of_bytes_are_rounded_up(dtype, nbytes):
  shape, = array_shape.arrays_of(_shapes_of(f'{dtype}[5]{{0}}'))
  assert (str(shape), shape.nbytes) == (f'{dtype}[5]', nbytes)


@pytest.mark.parametrize('text, expected, nbytes', [
    ('f32[]', 'f32[]', 4),
    ('s64[0]{0}', 's64[0]', 0),
    ('bf16[4,0,2]{2,1,0}', 'bf16[4,0,2]', 0),
    ('pred[2,1,1,1,3]{4,3,2,1,0}', 'pred[2,1,1,1,3]', 6),
])
def test_scalars_and_empty_arrays(text, expected, nbytes):
  data = _shapes_of(text)
  assert not array_shape.is_tuple(data)
  shape, = array_shape.arrays_of(data)
  assert (str(shape), shape.nbytes) == (expected, nbytes)


def test_tuples_are_flattened():
  data = _shapes_of('(f32[2]{0}, (s8[3]{0}, pred[]), ())')
  assert array_shape.is_tuple(data)
  assert [str(s) for s in array_shape.arrays_of(data)
         ] == ['f32[2]', 's8[3]', 'pred[]']
  empty = _shapes_of('()')
  assert array_shape.is_tuple(empty)
  assert array_shape.arrays_of(empty) == ()


@pytest.mark.parametrize('text, dims, expected', [
    ('f32[2,3]{0,1}', (4, 5), 'f32[4,5]{0,1}'),
    ('f32[2,3]{0,1}', (6,), 'f32[6]{0}'),
    ('f32[6]{0}', (2, 3), 'f32[2,3]{1,0}'),
    ('f32[1]{0}', (), 'f32[]'),
])
def test_other_dimensions(text, dims, expected):
  """The layout is kept where it can be."""
  made = array_shape.with_dims(_shapes_of(text), dims)
  assert messages.parse(protos.ShapeProto,
                        made) == messages.parse(protos.ShapeProto,
                                                _shapes_of(expected))


def test_types_that_are_not_listed_are_named_by_number():
  data = messages.make(
      protos.ShapeProto, element_type=99, dimensions=[2]).SerializeToString()
  shape, = array_shape.arrays_of(data)
  assert (str(shape), shape.nbytes) == ('type99[2]', 0)


_IN_MLIR = {
    'pred': 'i1',
    'c64': 'complex<f32>',
    'c128': 'complex<f64>',
    **{
        f's{n}': f'i{n}' for n in (2, 4, 8, 16, 32, 64)
    },
    **{
        f'u{n}': f'ui{n}' for n in (2, 4, 8, 16, 32, 64)
    },
    **{
        f: f for f in ('f16', 'bf16', 'f32', 'f64')
    },
    **{
        f: f[:2] + f[2:].upper() for f in (*_SIZES, *_SMALL) if f.startswith(('f8', 'f4'))
    },
}


@pytest.mark.parametrize('dtype', [*_SIZES, *_SMALL])
def test_of_mlir(dtype):
  """XLA's own conversion to MLIR judges the names there."""
  hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
  from jaxlib import _jax as jax
  text = f'{dtype}[3,5]{{1,0}}'
  module = hlo.hlo_module_from_text(
      f'HloModule m\n\nENTRY e {{\n  ROOT p0 = {text} parameter(0)\n}}\n')
  converted = jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
  dialects = pytest.importorskip(
      'torch_xla.shardy.stablehlo.dialects', reason='of the series stablehlo')
  assert f'tensor<3x5x{_IN_MLIR[dtype]}>' in dialects.text(
      dialects.read(converted))
  expected, = array_shape.arrays_of(_shapes_of(text))
  assert array_shape.from_mlir(_IN_MLIR[dtype], (3, 5)) == expected


def test_types_of_mlir_that_are_not_listed():
  shape = array_shape.from_mlir('!quant.uniform<i8:f32>', [2])
  assert (str(shape), shape.nbytes) == ('!quant.uniform<i8:f32>[2]', 0)
  assert str(array_shape.from_mlir('f32', ())) == 'f32[]'
