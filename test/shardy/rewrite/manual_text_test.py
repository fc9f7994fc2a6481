"""Manual regions as XLA's importer takes them, as XLA prints them."""

import re

import annotated_modules as modules
from printed import assert_printed
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.rewrite import extract, to_sdy
from torch_xla.shardy.sdy import attributes
from torch_xla.shardy.sdy.attributes import DimSharding, SubAxis
from torch_xla.shardy.sdy.manual import ManualShardingError
from torch_xla.shardy.sdy.mesh_axes import InexpressibleError

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')

_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_X = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_XY = '{devices=[2,4]<=[8]}'
_F, _L = 'f32[8,8]{1,0}', 'f32[4,8]{1,0}'


def _say(spec, priority=None) -> Annotation:
  return Annotation.from_spec(_MESH, spec, priority)


def _begin(of: str, shape: str = _L) -> str:
  return (f'{shape} custom-call({of}), '
          'custom_call_target="SPMDFullToShardShape", sharding={manual}')


def _end(of: str, shape: str = _F, sharding: str = _X) -> str:
  return (f'{shape} custom-call({of}), '
          f'custom_call_target="SPMDShardToFullShape", sharding={sharding}')


def _manual(of: str, shape: str = _L) -> str:
  return (f'{shape} custom-call({of}), custom_call_target="Sharding", '
          'sharding={manual}')


def _lower(entry: str, others: str = ''):
  module = modules.module_of(entry, others)
  return module, to_sdy.lower_shardings(module,
                                        extract.extract_annotations(module), 8)


def _print(module) -> str:
  """The text that XLA prints, with new names numbered as they come."""
  text = hlo.HloModule.from_serialized_hlo_module_proto(
      module.SerializeToString()).to_string()
  text = text.partition('\n')[2].replace('%', '').replace('\\"', "'")
  for long, short in (('frontend_attributes',
                       'attributes'), (' custom_call_target=', ' '),
                      (', custom_call_has_side_effect=true',
                       ', effect'), ('xla.sdy.manual_computation_body', 'body'),
                      ('#sdy.sharding_per_value', 'per_value'), ('{1,0}', '')):
    text = text.replace(long, short)
  # Parameters: as in `to_sdy_test`.
  text = re.sub(r', attributes={xla.sdy.sharding="[^"]*"}', '', text)
  for pattern, name in (r'body\.\d+', 'body'), (r'shardy\.\d+', 'new'):
    known = list(dict.fromkeys(re.findall(pattern, text)))
    text = re.sub(
        pattern, lambda m, k=known, n=name: f'{n}{k.index(m[0])}', text)
  return text.strip()


def test_region():
  """Parameters of users keep their priorities; boundaries come after them."""
  module, program = _lower(f'''
    p0 = {_F} parameter(0), sharding={_X}
    t = f32[] custom-call(p0), {modules.bind(_say((0, None), (2, None)))}
    b = {_begin('p0')}
    m = {_L} tanh(b)
    k = {_manual('m')}
    e = {_end('k')}
    ROOT n = {_F} negate(e)''')
  assert_printed(
      _print(module), '''\
body0 (new0: f32[4,8]) -> f32[4,8] {
  new0 = f32[4,8] parameter(0)
  ROOT m = f32[4,8] tanh(new0)
}

ENTRY e (p0: f32[8,8]) -> f32[8,8] {
  t = f32[] constant(0)
  p0 = f32[8,8] parameter(0), sharding={devices=[2,1,4]<=[8]
      last_tile_dim_replicate}
  new1 = f32[4,8] custom-call(p0), "xla.sdy.GlobalToLocalShape", effect,
      attributes={xla.sdy.in_shardings="per_value<[<@mesh, [{'x'}, {}],
      replicated={'y'}>]>",xla.sdy.manual_axes="#sdy<manual_axes{'x', 'y'}>"}
  new2 = f32[4,8] call(new1), to_apply=body0, attributes={inlineable="false"}
  new3 = f32[8,8] custom-call(new2), "xla.sdy.LocalToGlobalShape", effect,
      attributes={xla.sdy.manual_axes="#sdy<manual_axes{'x',
      'y'}>",xla.sdy.out_shardings="per_value<[<@mesh, [{'x'}p3, {}],
      replicated={'y'}>]>"}
  ROOT n = f32[8,8] negate(new3)
}''')
  assert [(t.instruction, t.source, str(t.shape), t.sdy)
          for t in program.tensors
          if t.parameter is None
         ] == [(name, source, 'f32[8,8]', '#sdy.sharding_per_value<[<@mesh, '
                '[{"x"}p3, {}], replicated={"y"}>]>')
               for name, source in (('b', ('p0', 'parameter')),
                                    ('e', ('k', 'custom-call')))]
  assert not program.results and not program.manual_results


def test_values_from_outside():
  """A constant is made within; what is not split enters whole."""
  module, _ = _lower(f'''
    p0 = {_F} parameter(0), sharding={_X}
    p1 = {_L} parameter(1), sharding={{replicated}}
    p2 = f32[] parameter(2), sharding={{replicated}}
    two = f32[] constant(2)
    twos = {_L} broadcast(two), dimensions={{}}
    ps = {_L} broadcast(p2), dimensions={{}}
    b = {_begin('p0')}
    c = {_begin('p0')}
    m = {_L} multiply(b, twos)
    n = {_L} add(m, p1)
    o = {_L} add(n, ps)
    q = {_L} add(o, c)
    ROOT e = {_end('q')}''')
  text = _print(module)
  assert_printed(
      text[:text.index('\n\n')], '''\
body0 (new0: f32[4,8], new1: f32[4,8], new2: f32[]) -> f32[4,8] {
  new0 = f32[4,8] parameter(0)
  new3 = f32[] constant(2)
  new4 = f32[4,8] broadcast(new3), dimensions={}
  m = f32[4,8] multiply(new0, new4)
  new1 = f32[4,8] parameter(1)
  n = f32[4,8] add(m, new1)
  new2 = f32[] parameter(2)
  new5 = f32[4,8] broadcast(new2), dimensions={}
  o = f32[4,8] add(n, new5)
  ROOT q = f32[4,8] add(o, new0)
}''')
  assert 'in_shardings="per_value<[<@mesh, [{\'axis_0\'}, {}], ' in text
  assert '<@mesh, [{}, {}], replicated={\'axis_0\', \'axis_1\'}>, <@mesh, [], ' in text


def test_uneven():
  """Padded with zeros before, in the tensor's type, and cut after."""
  module, _ = _lower(f'''
    p0 = s8[7,6]{{1,0}} parameter(0), sharding={_XY}
    b = {_begin('p0', 's8[4,2]{1,0}')}
    m = s8[4,2]{{1,0}} negate(b)
    e = {_end('m', 's8[7,6]{1,0}', _XY)}
    ROOT n = s8[7,6]{{1,0}} negate(e)''')
  entry = _print(module).partition('ENTRY')[2]
  assert '''
  new1 = s32[] constant(0)
  new2 = s8[] convert(new1)
  new3 = s8[8,8] pad(p0, new2), padding=0_1x0_2
  new4 = s8[4,2] custom-call(new3), "xla.sdy.GlobalToLocalShape"''' in entry
  assert '''
  new7 = s8[7,6] slice(new6), slice={[0:7], [0:6]}
  ROOT n = s8[7,6] negate(new7)''' in entry


def test_region_that_needs_its_own_result():
  """m passes on, stacked: eight times four rows."""
  module, program = _lower(f'''
    p0 = {_F} parameter(0), sharding={_X}
    b = {_begin('p0')}
    m = {_L} tanh(b)
    k = {_L} cosine(m)
    e = {_end('k')}
    s = {_F} custom-call(e), custom_call_target="Sharding", sharding={_X}
    c = {_begin('s')}
    n = {_L} add(c, m)
    ROOT f = {_end('n')}''')
  text = _print(module)
  assert '''\
body0 (new0: f32[4,8]) -> (f32[4,8], f32[4,8]) {
  new0 = f32[4,8] parameter(0)
  m = f32[4,8] tanh(new0)
  k = f32[4,8] cosine(m)
  ROOT new1 = (f32[4,8], f32[4,8]) tuple(k, m)
}''' in text
  assert '''
  new2 = f32[4,8] parameter(0)
  new3 = f32[4,8] parameter(1)
  ROOT n = f32[4,8] add(new2, new3)
''' in text
  assert ' = (f32[8,8], f32[32,8]) custom-call(' in text
  assert "<@mesh, [{'axis_0', 'axis_1'}, {}]>" in text
  assert len([t for t in program.tensors if t.parameter is None]) == 5


def test_manual_parameters_and_results():
  """Each is stacked, a number as well, in the shape of the program, too."""
  module, program = _lower(f'''
    p0 = {_L} parameter(0), sharding={{manual}}
    p1 = f32[] parameter(1), sharding={{manual}}
    p2 = {_F} parameter(2), sharding={_X}
    w = {_L} broadcast(p1), dimensions={{}}
    m = {_L} add(p0, w)
    n = f32[] negate(p1)
    ROOT t = ({_L}, f32[], {_L}, {_F}) tuple(m, n, p0, p2)''')
  text = _print(module)
  assert text.count('= f32[] reshape(') == 2  # What enters each of two.
  assert text.count('= f32[1]{0} reshape(n)') == 1
  assert ('ENTRY e (p0: f32[32,8], p1: f32[8], p2: f32[8,8]) -> (f32[32,8], '
          'f32[8], f32[32,8], f32[8,8]) {') in text
  assert program.manual_results == {0, 1, 2}
  assert {
      n: str(placement) for n, placement in program.results.items()
  } == {
      0: '{devices=[8,1]<=[8]}',
      1: '{devices=[8]<=[8]}',
  }
  told = [program.results[0]] * 4
  assert [str(s) for s in program.mark_manual_results(told)
         ] == ['{manual}', '{manual}', '{manual}', '{devices=[8,1]<=[8]}']
  stored = {t.parameter: str(t.placement) for t in program.tensors}
  assert stored == {0: '{devices=[8,1]<=[8]}', 1: '{devices=[8]<=[8]}', 2: _X}


def test_boundary_of_a_mark_without_priority():
  """enable_manual_sharding marks: no user can give that a priority."""
  mark = modules.tag(_say((0, None)))
  module, program = _lower(f'''
    p0 = {_F} parameter(0), sharding={{replicated}}
    t = f32[] custom-call(p0), {modules.bind(_say((None, None), (3, None)))}
    a = {_F} negate(p0)
    k = {_F} custom-call(a), {mark}
    c = {_F} custom-call(k), custom_call_target="Sharding", sharding={_X}
    k2 = {_F} custom-call(c), {mark}
    d = {_F} custom-call(k2), custom_call_target="Sharding", sharding={_X}
    b = {_begin('d')}
    m = {_L} tanh(b)
    ROOT e = {_end('m')}''')
  del module
  assert {
      t.instruction: t.sdy.partition('[{')[2].partition('}')[2][:2]
      for t in program.tensors
      if t.instruction in 'cdbe'
  } == {
      'c': ', ',  # Any other mark without one counts as p0.
      'd': 'p4',
      'b': 'p4',
      'e': 'p4'
  }


@pytest.mark.parametrize('entry, message', [
    (f'''p0 = {_F} parameter(0), sharding={_X}
      n = {_F} negate(p0)
      b = {_begin('n')}
      ROOT e = {_end('b')}''', 'n has no sharding; mark it first'),
    (f'''p0 = {_F} parameter(0), sharding={_X}
      ROOT e = {_end('p0', 'f32[16,8]{1,0}')}''',
     'at e: it ends a region that nothing began'),
])
def test_what_cannot_be_said(entry, message):
  _check_refused(InexpressibleError, message, entry)


@pytest.mark.parametrize('body, call, message', [
    (f'''p = {_F} parameter(0)
      s = {_F} custom-call(p), custom_call_target="Sharding", sharding={_X}
      ROOT b = {_begin('s')}''', f'k = {_L} call(p0), to_apply=f',
     'at b: a manual value that enters or leaves a loop or function; call '
     'disable_manual_sharding'),
    (f'''p = {_L} parameter(0), sharding={{manual}}
      ROOT n = {_L} negate(p)''',
     f's = {_L} slice(p0), slice={{[0:4], [0:8]}}\n'
     f'k = {_L} call(s), to_apply=f', 'enters or leaves a loop or function'),
    (f'''p = {_L} parameter(0)
      ROOT s = {_L} custom-call(p), custom_call_target="Sharding",
        sharding={{replicated}}''', f'''b = {_begin('p0')}
      k = {_L} call(b), to_apply=f''',
     'at k: a loop or function in it that marks tensors'),
])
def test_what_cannot_be_said_of_functions(body, call, message):
  _check_refused(
      InexpressibleError, message, f'''p0 = {_F} parameter(0), sharding={_X}
      {call}
      ROOT n = {_F} negate(p0)''', f'f {{\n{body}\n}}')


@pytest.mark.parametrize('entry, message', [
    (f'''p0 = {_F} parameter(0), sharding={_X}
      b = {_begin('p0')}
      c = {_begin('b', 'f32[2,8]{1,0}')}
      ROOT e = {_end('c', _L)}''',
     'c begins a manual region within one: call disable_manual_sharding'),
    (f'''p0 = {_L} parameter(0), sharding={{manual}}
      z = {_L} iota(), iota_dimension=0
      ROOT a = {_L} add(p0, z), sharding={{replicated}}''',
     'a has the sharding {replicated} and is computed from p0, which is '
     'manual: call disable_manual_sharding before'),
    (f'''p0 = {_F} parameter(0), sharding={_X}
      b = {_begin('p0')}
      m = {_L} tanh(b)
      s = {_L} custom-call(m), custom_call_target="Sharding", sharding={_X}
      ROOT e = {_end('s')}''', 's has the sharding {devices=[2,1,4]'),
    (f'''p0 = {_F} parameter(0), sharding={_X}
      b = {_begin('p0', 'f32[2,8]{1,0}')}
      ROOT e = {_end('b')}''',
     'at b: f32[8,8] split as {devices=[2,1,4]<=[8] last_tile_dim_replicate} '
     'is f32[4,8] on a device, and not f32[2,8]; give the shape'),
    (f'''p0 = {_F} parameter(0), sharding={_X}
      b = {_begin('p0')}
      ROOT e = {_end('b', 'f32[6,8]{1,0}')}''', 'at e: f32[6,8] split as'),
    (f'''p0 = {_F} parameter(0), sharding={_X}
      b = {_begin('p0', 's32[4,8]{1,0}')}
      ROOT e = {_end('b', 's32[8,8]{1,0}')}''', 'and not s32[4,8]'),
    (f'''p0 = {_F} parameter(0), sharding={_X}
      b = {_begin('p0')}
      ROOT e = {_end('b', sharding='{devices=[2]<=[2]}')}''',
     'at e: {devices=[2]<=[2]} is for tensors of rank 1'),
])
def test_what_means_nothing(entry, message):
  _check_refused(ManualShardingError, message, entry)


def _check_refused(error, message, entry, others='') -> None:
  """The module is as it was then."""
  module = modules.module_of(entry, others)
  taken = extract.extract_annotations(module)
  before = module.SerializeToString()
  with pytest.raises(error) as raised:
    to_sdy.lower_shardings(module, taken, 8)
  assert message in str(raised.value)
  assert module.SerializeToString() == before


_SUB = attributes.Mesh((('x', 2), ('y', 8), ('z', 1)))


@pytest.mark.parametrize('dims, free', [
    ((), '"x", "y", "z"'),
    ((DimSharding((SubAxis('y'),)),), '"x", "z"'),
    ((DimSharding((SubAxis('y', 1, 2),)),), '"x", "y":(2)4, "z"'),
    ((DimSharding(
        (SubAxis('y', 2, 2), SubAxis('x'))),), '"y":(1)2, "y":(4)2, "z"'),
    ((DimSharding((SubAxis('y', 4, 2),)), DimSharding(
        (SubAxis('y', 1, 2),))), '"x", "y":(2)2, "z"'),
    ((DimSharding((SubAxis('x'), SubAxis('y'), SubAxis('z'))),), ''),
])
def test_axes_that_are_left(dims, free):
  assert ', '.join(map(str, attributes.free_axes(_SUB, dims))) == free
  text = attributes.manual_attribute(_SUB, [dims, ()])
  replicated = f', replicated={{{free}}}' if free else ''
  assert text == ('#sdy.sharding_per_value<[<@mesh, ['
                  f'{", ".join(map(str, dims))}]{replicated}>, '
                  '<@mesh, [], replicated={"x", "y", "z"}>]>')
