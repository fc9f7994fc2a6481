"""What a backend tells in MLIR is read, and what _XLAC is told of it."""

from printed import assert_printed
import pytest
from torch_xla.shardy.hlo import messages, protos
from torch_xla.shardy.hlo.compiled_program import Collective
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.stablehlo import answer, dialects

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads MLIR')

_ROWS = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_ROWS_V1 = '{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}'
_COLUMNS = '{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
_MESH = 'sdy.mesh @mesh = <["x"=2, "y"=4]>\n'
_ONE = 'return %a : tensor<4x2xf32>'
_TWO = 'return %a, %a : tensor<4x2xf32>, tensor<4x2xf32>'


def _program(argument: str = '',
             results: str = 'tensor<4x2xf32>',
             body: str = _ONE,
             attributes: str = '',
             before: str = '') -> bytes:
  """A program of one parameter, on one device, as a backend made it."""
  return (f'module @compiled attributes {{{attributes}}} {{\n{before}'
          f'func.func @main(%a: tensor<4x2xf32> {argument}) -> ({results}) {{\n'
          f'  {body}\n}}\n}}\n').encode()


def _read(program: bytes):
  return answer.read(program, 'mlir')


def _parsed(*texts: str):
  return tuple(map(parse_sharding, texts))


def test_nothing_is_told():
  made = _read(_program())
  assert (made.parameters, made.results, made.collectives) == (None,) * 3
  assert made.local_shapes == {}


def test_arguments_and_results():
  """A scalar of which nothing is said is whole."""
  made = _read(
      _program(
          f'{{mhlo.sharding = "{_ROWS}"}}', f'tensor<f32>, tensor<4x2xf32> '
          f'{{mhlo.sharding = "{_COLUMNS}"}}',
          '%z = stablehlo.constant dense<0.0> : tensor<f32>\n'
          'return %z, %a : tensor<f32>, tensor<4x2xf32>'))
  assert made.parameters == _parsed(_ROWS)
  assert made.results == _parsed('{replicated}', _COLUMNS)


def test_of_some_nothing_is_said():
  """An argument is taken to be whole, which is compared with what is stored;
  of results nobody else knows."""
  made = _read(
      _program(
          f'{{mhlo.sharding = "{_ROWS}"}}, %b: tensor<4x2xf32>',
          f'tensor<4x2xf32>, tensor<4x2xf32> {{mhlo.sharding = "{_COLUMNS}"}}',
          _TWO))
  assert made.parameters == _parsed(_ROWS, '{replicated}')
  assert made.results is None


@pytest.mark.parametrize('said, results, expected', [
    (f'"{_ROWS}"', 1, [_ROWS]),
    (f'"{_ROWS_V1}"', 1, [_ROWS]),
    (f'"{{{_ROWS}}}"', 1, [_ROWS]),
    (f'"{{{_ROWS}, {_COLUMNS}}}"', 2, [_ROWS, _COLUMNS]),
    (f'"{{{_ROWS_V1}, {{replicated}}}}"', 2, [_ROWS, '{replicated}']),
    ('"{replicated}"', 2, ['{replicated}', '{replicated}']),
    (f'"{_COLUMNS}"', 2, [_COLUMNS, _COLUMNS]),
], ids=['one', 'v1', 'a tuple of one', 'two', 'v1 and whole', 'one for all',
        'one tiled for all'])  # yapf: disable
def test_output_sharding(said, results, expected):
  made = _read(
      _program(
          results=', '.join(['tensor<4x2xf32>'] * results),
          body=_ONE if results == 1 else _TWO,
          attributes=f'mhlo.spmd_output_sharding = {said}'))
  assert made.results == _parsed(*expected)
  assert made.parameters is None


def test_output_sharding_goes_before_the_results_own():
  made = _read(
      _program(
          results=f'tensor<4x2xf32> {{mhlo.sharding = "{_COLUMNS}"}}',
          attributes=f'mhlo.spmd_output_sharding = "{_ROWS}"'))
  assert made.results == _parsed(_ROWS)


@pytest.mark.parametrize('said', [f'["{_ROWS}"]', f'["{_ROWS_V1}"]'])
def test_parameters_shardings(said):
  made = _read(_program(attributes=f'mhlo.spmd_parameters_shardings = {said}'))
  assert made.parameters == _parsed(_ROWS)
  assert made.results is None


def test_arguments_own_go_before_parameters_shardings():
  made = _read(
      _program(
          f'{{mhlo.sharding = "{_COLUMNS}"}}',
          attributes=f'mhlo.spmd_parameters_shardings = ["{_ROWS}"]'))
  assert made.parameters == _parsed(_COLUMNS)


@pytest.mark.parametrize('said, expected', [
    ('<@mesh, [{"x"}, {}]>', _ROWS),
    ('<@mesh, [{}, {"y"}]>', _COLUMNS),
    ('<@mesh, [{}, {}]>', '{replicated}'),
    ('<@mesh, [{"x"}p1, {?}p3]>', _ROWS),
    ('<@mesh, [{"x", ?}, {?}]>', _ROWS),
    ('<@mesh, [{"x"}, {}], replicated={"y"}>', _ROWS),
    ('<@mesh, [{"x"}, {?}], replicated={"y"}>', _ROWS),
    ('<@mesh, [{"y":(1)2}, {"x"}]>',
     '{devices=[2,2,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}'),
    ('<@mesh, [{"x", "y":(1)2}, {"y":(2)2}]>', '{devices=[4,2]<=[8]}'),
    ('<mesh<["a"=2, "b"=4]>, [{"b"}, {"a"}]>', '{devices=[4,2]<=[2,4]T(1,0)}'),
    ('<mesh<["a"=4, "b"=2], device_ids=[0, 2, 4, 6, 1, 3, 5, 7]>, [{"a"}, {}]>',
     '{devices=[4,1,2]0,2,4,6,1,3,5,7 last_tile_dim_replicate}'),
])
def test_shardy(said, expected):
  program = _program(
      f'{{sdy.sharding = #sdy.sharding{said}}}',
      f'tensor<4x2xf32> {{sdy.sharding = #sdy.sharding{said}}}',
      before=_MESH)
  made = _read(program)
  assert made.parameters == made.results
  sharding, = made.results
  assert sharding == parse_sharding(expected)


def test_shardy_over_several_meshes():
  made = _read(
      _program(
          '{sdy.sharding = #sdy.sharding<@m, [{"d"}, {}]>}',
          'tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}',
          before=_MESH + 'sdy.mesh @m = <["d"=8]>\n'))
  assert made.parameters == _parsed('{devices=[8,1]<=[8]}')
  assert made.results == _parsed(_ROWS)


def _artifact(program: bytes) -> bytes:
  return dialects.write(dialects.read(program), (1, 12, 0))


_TOLD = _program(
    '{sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}',
    attributes=f'mhlo.spmd_output_sharding = "{_ROWS}"',
    before=_MESH)


def test_portable_artifacts():
  made = _read(_artifact(_TOLD))
  assert made.parameters == _parsed(_COLUMNS)
  assert made.results == _parsed(_ROWS)


_VENDORS = b'''// As compiled.
#loc = loc("model.py":1:1)
module @SyncTensorsGraph.7 attributes {mhlo.spmd_output_sharding = "%s", \
acme.cores = 8 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%%arg0: tensor<4x2xf32> {mhlo.sharding = "%s"}, \
%%arg1: tensor<1xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>, \
acme.note = "f\\"x)) {"}) -> (tensor<4x2xf32> {jax.result_info = "out"}) {
    %%0 = acme.matmul %%arg0 * %%arg1 on <core 3>
    acme.return %%0
  }
}
''' % (_COLUMNS.encode(), _ROWS.encode())


@pytest.mark.parametrize(
    'program', [
        _VENDORS,
        _VENDORS.replace(b'(tensor<4x2xf32> {jax.result_info = "out"})',
                         b'tensor<4x2xf32>'),
        _VENDORS.replace(b'func.func public @main', b'func.func @main'),
        _VENDORS.replace(b', %arg1', b' loc(#loc2), %arg1').replace(
            b'{"}) ->', b'{"} loc("w":2:1)) ->') +
        b'#loc2 = loc("model.py":2:1)\n',
        _VENDORS.replace(b'#loc = ', b'!tile = !acme.tile<4>\n#loc = '),
    ],
    ids=['in brackets', 'one result', 'not public', 'with places', 'types'])
def test_a_vendors_dialect(program):
  """Only what stands before what main computes is read."""
  with pytest.raises(dialects.ProgramTextError):
    dialects.read(program, allow_unknown=True)
  made = _read(program)
  assert made.parameters == _parsed(
      _ROWS, '{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}')
  assert made.results == _parsed(_COLUMNS)
  assert made.collectives is None


def test_a_vendors_dialect_without_results():
  made = _read(b'module {\n  func.func @main(%a: tensor<4xf32> '
               b'{mhlo.sharding = "{devices=[8]<=[8]}"}) {\n    acme.store %a\n'
               b'  }\n}\n')
  assert made.parameters == _parsed('{devices=[8]<=[8]}')
  assert made.results == ()


def test_a_vendors_dialect_in_the_generic_form():
  made = _read(
      _program(
          f'{{mhlo.sharding = "{_ROWS}"}}',
          body=f'"acme.go"(%a) '
          f': (tensor<4x2xf32>) -> ()\n{_ONE}'))
  assert made.parameters == _parsed(_ROWS)


def test_collectives():
  """Each kind has as many bytes as the bigger side has."""
  group = 'dense<[[0, 1]]> : tensor<1x2xi64>'
  handle = '#stablehlo.channel_handle<handle = 1, type = 0>'
  body = f'''
    %0 = "stablehlo.all_gather"(%a) {{all_gather_dim = 0 : i64,
        replica_groups = {group}, channel_handle = {handle}}}
        : (tensor<4x2xf32>) -> tensor<8x2xf32>
    %1 = "stablehlo.all_gather"(%a) {{all_gather_dim = 1 : i64,
        replica_groups = {group}, channel_handle = {handle}}}
        : (tensor<4x2xf32>) -> tensor<4x4xf32>
    %2 = "stablehlo.all_reduce"(%a) ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }}) {{replica_groups = {group}, channel_handle = {handle}}}
        : (tensor<4x2xf32>) -> tensor<4x2xf32>
    return %2 : tensor<4x2xf32>'''
  made = _read(_program(body=body))
  assert made.collectives == (Collective('all-gather', 2, 2 * 8 * 2 * 4,
                                         8 * 2 * 4),
                              Collective('all-reduce', 1, 4 * 2 * 4, 4 * 2 * 4))


@pytest.mark.parametrize('program', [
    b'', b'no program', b'module {}', b'\xff\x00',
    _artifact(_TOLD)[:200],
    _program('{mhlo.sharding = "{devices=[2,"}'),
    _program(attributes='mhlo.spmd_output_sharding = "{devices=[2,"'),
    _program('{sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}', before=_MESH),
    _program('{sdy.sharding = #sdy.sharding<@other, [{"x"}, {}]>}',
             before=_MESH),
    _program('{mhlo.sharding = 1 : i32}'),
    _program(attributes='mhlo.spmd_output_sharding = 1 : i32'),
    _program(attributes='mhlo.spmd_parameters_shardings = [1 : i32]'),
    _program('{sdy.sharding = "x"}'),
], ids=['empty', 'no MLIR', 'no main', 'bytes', 'cut', 'sharding', 'output',
        'rank', 'mesh', 'a number', 'output number', 'list of numbers',
        'sdy text'])  # yapf: disable
def test_damaged(program):
  with pytest.raises(ValueError):
    _read(program)


def test_hlo_is_read_as_ever():
  module = messages.make(protos.HloModuleProto, name='made')
  made = answer.read(module.SerializeToString(), 'hlo')
  assert made.collectives == ()
  assert answer.read(b'', 'unheard-of') is None


@pytest.mark.parametrize(
    'results', [
        (_ROWS,),
        (_ROWS, '{replicated}'),
        (_COLUMNS, _COLUMNS, '{devices=[8]<=[8]}'),
    ],
    ids=len)
def test_text_of(results):
  """It is MLIR, and says the same when it is read; as lists of devices."""
  text = answer.text_of(len(results), _parsed(*results))
  assert '<=' not in text
  assert _read(text.encode()).results == _parsed(*results)
  module = dialects.read(text.encode())
  assert dialects.text(module).count('tensor<f32>') >= len(results)


def test_text_of_one_device_or_no_result():
  assert_printed(
      answer.text_of(1, None), '''\
module @compiled {
  func.func @main() -> (tensor<f32>) {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
''')
  for results in None, ():
    assert _read(answer.text_of(0, results).encode()).parameters is None
