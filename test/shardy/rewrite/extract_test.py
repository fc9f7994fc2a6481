"""Bindings and tags leave the program, and what they said is kept."""

import dataclasses

import annotated_modules as modules
from printed import assert_printed
import pytest
from torch_xla.shardy.annotate import call_target
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.annotate.call_target import AnnotationTextError
from torch_xla.shardy.rewrite import extract

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
_bind, _tag = modules.bind, modules.tag
_module = modules.module_of
_MESH = UserMesh.from_devices((2, 4), ('x', 'y'))
_A = Annotation.from_spec(_MESH, (0, None), (1, None))
_B = Annotation.from_spec(_MESH, (None, 1), None)
_C = Annotation.from_spec(_MESH, (1, 0), (0, 2))
_F = 'f32[8,8]{1,0}'


def _binding(*said: Annotation, parameters: tuple[int, ...]) -> extract.Binding:
  return call_target.binding_target(said), parameters


def _text(module) -> str:
  """The module's computations as XLA prints them, after it checked them."""
  text = hlo.HloModule.from_serialized_hlo_module_proto(
      module.SerializeToString()).to_string()
  return text.partition('\n')[2].replace('%', '').strip()


def _names(module, found: dict) -> dict:
  """Annotations by the names of their instructions."""
  names = {
      (c.id, i.id): i.name for c in module.computations for i in c.instructions
  }
  return {names[key]: said for key, said in found.items()}


def test_no_calls_no_change():
  module = _module(f'  ROOT p0 = {_F} parameter(0)')
  before = module.SerializeToString()
  assert extract.extract_annotations(module) == extract.Annotations()
  assert module.SerializeToString() == before


def test_binding():
  module = _module(f'''
    p0 = {_F} parameter(0)
    p1 = {_F} parameter(1)
    s = {_F} add(p0, p1)
    b = f32[] custom-call(p1, p0), {_bind(_A, _B)}
    ROOT t = ({_F}, f32[]) tuple(s, b)''')
  taken = extract.extract_annotations(module)
  assert taken == extract.Annotations(True, {
      1: _A,
      0: _B
  }, {}, (_binding(_A, _B, parameters=(1, 0)),))
  assert_printed(
      _text(module), '''\
ENTRY e (p0: f32[8,8], p1: f32[8,8]) -> (f32[8,8], f32[]) {
  p0 = f32[8,8]{1,0} parameter(0)
  p1 = f32[8,8]{1,0} parameter(1)
  s = f32[8,8]{1,0} add(p0, p1)
  b = f32[] constant(0)
  ROOT t = (f32[8,8]{1,0}, f32[]) tuple(s, b)
}''')


def test_binding_as_root_with_everything_on_it():
  """Nothing of the call stays on the constant."""
  module = _module(f'''
    p0 = {_F} parameter(0)
    ROOT b = f32[] custom-call(p0), {_bind(_A)}, sharding={{replicated}},
      frontend_attributes={{a="1"}}, api_version=API_VERSION_ORIGINAL''')
  assert extract.extract_annotations(module).parameters == {0: _A}
  assert _text(module) == '''\
ENTRY e (p0: f32[8,8]) -> f32[] {
  p0 = f32[8,8]{1,0} parameter(0)
  ROOT b = f32[] constant(0)
}'''


def test_several_bindings():
  """The last word on a tensor counts; bindings are listed in order."""
  module = _module(f'''
    p0 = {_F} parameter(0)
    p1 = {_F} parameter(1)
    b = f32[] custom-call(p0, p1), {_bind(_A, _B)}
    c = f32[] custom-call(p0), {_bind(_C)}
    ROOT t = (f32[], f32[]) tuple(b, c)''')
  assert extract.extract_annotations(module) == extract.Annotations(
      True, {
          0: _C,
          1: _B
      }, {},
      (_binding(_A, _B, parameters=(0, 1)), _binding(_C, parameters=(0,))),
      frozenset({0, 1}))
  assert _text(module).count('constant(0)') == 2


def test_parameter_that_nothing_but_bindings_uses():
  """What was said of it is nothing to the program."""
  module = _module(f'''
    p0 = {_F} parameter(0)
    p1 = {_F} parameter(1)
    s = {_F} negate(p1)
    b = f32[] custom-call(p0, p1), {_bind(_A, _B)}
    ROOT t = ({_F}, f32[]) tuple(s, b)''')
  taken = extract.extract_annotations(module)
  assert taken.parameters == {0: _A, 1: _B}
  assert taken.unused == {0}
  assert taken.without_unused() == dataclasses.replace(
      taken, parameters={1: _B})


def test_operand_that_is_no_parameter():
  module = _module(f'''
    p0 = {_F} parameter(0)
    s = {_F} negate(p0)
    ROOT b = f32[] custom-call(s, p0), {_bind(_A, _B)}''')
  taken = extract.extract_annotations(module)
  assert taken.bindings == (_binding(_A, _B, parameters=(-1, 0)),)
  assert taken.parameters == {0: _B}


def test_tag():
  module = _module(f'''
    p0 = {_F} parameter(0)
    s = {_F} negate(p0)
    k = {_F} custom-call(s), {_tag(_A)}
    c = {_F} custom-call(k), custom_call_target="Sharding",
      sharding={{devices=[2,1,4]<=[8] last_tile_dim_replicate}}
    ROOT r = {_F} add(c, p0)''')
  taken = extract.extract_annotations(module)
  assert taken.has_calls and not taken.parameters and not taken.bindings
  assert _names(module, taken.constraints) == {'c': _A}
  assert_printed(
      _text(module), '''\
ENTRY e (p0: f32[8,8]) -> f32[8,8] {
  p0 = f32[8,8]{1,0} parameter(0)
  s = f32[8,8]{1,0} negate(p0)
  c = f32[8,8]{1,0} custom-call(s), custom_call_target="Sharding",
      sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  ROOT r = f32[8,8]{1,0} add(c, p0)
}''')


def test_chained_tags():
  """Each Sharding call is told by the tag right before it."""
  module = _module(f'''
    p0 = {_F} parameter(0)
    k = {_F} custom-call(p0), {_tag(_A)}
    l = {_F} custom-call(k), {_tag(_B)}
    c = {_F} custom-call(l), custom_call_target="Sharding",
      sharding={{replicated}}
    m = {_F} custom-call(c), {_tag(_C)}
    d = {_F} custom-call(m), custom_call_target="Sharding",
      sharding={{replicated}}
    ROOT r = {_F} add(k, d)''')
  taken = extract.extract_annotations(module)
  assert _names(module, taken.constraints) == {'c': _B, 'd': _C}
  text = _text(module)
  assert 'shardy' not in text
  assert 'c = f32[8,8]{1,0} custom-call(p0)' in text
  assert 'd = f32[8,8]{1,0} custom-call(c)' in text
  assert 'add(p0, d)' in text


def test_tag_as_root():
  module = _module(f'''
    p0 = {_F} parameter(0)
    s = {_F} negate(p0)
    k = {_F} custom-call(s), {_tag(_A)}
    ROOT l = {_F} custom-call(k), {_tag(_B)}''')
  assert extract.extract_annotations(module).has_calls
  assert _text(module) == '''\
ENTRY e (p0: f32[8,8]) -> f32[8,8] {
  p0 = f32[8,8]{1,0} parameter(0)
  ROOT s = f32[8,8]{1,0} negate(p0)
}'''


def test_binding_of_a_tag():
  """The tag goes, and the binding names what was tagged."""
  module = _module(f'''
    p0 = {_F} parameter(0)
    k = {_F} custom-call(p0), {_tag(_A)}
    ROOT b = f32[] custom-call(k), {_bind(_B)}''')
  taken = extract.extract_annotations(module)
  assert taken.parameters == {0: _B}
  assert taken.bindings == (_binding(_B, parameters=(0,)),)


_DONOR = ', buffer_donor={ (0, {}), (1, {}), (2, {}) }'


@pytest.mark.parametrize(
    'result, others, bound, donated',
    [
        # p1's tensor lives on: without the binding it was not in the program.
        ('s', f'''k = {_F} custom-call(p2), {_tag(_A)}
    s = {_F} add(p0, k)''', 'p1', [0, 2]),
        # Nothing used p2 before.
        ('s', f's = {_F} add(p0, p1)', 'p0', [0, 1, 2]),
        # p0 is the result.
        ('p0', '', 'p0', [0, 1, 2]),
    ])
def test_what_stays_donated(result, others, bound, donated):
  module = _module(
      f'''
    p0 = {_F} parameter(0)
    p1 = {_F} parameter(1)
    p2 = {_F} parameter(2)
    {others}
    b = f32[] custom-call({bound}), {_bind(_A)}
    ROOT t = ({_F}, f32[]) tuple({result}, b)''',
      header=_DONOR)
  extract.extract_annotations(module)
  assert [e.parameter_number for e in module.buffer_donor.entries] == donated
  assert _text(module).count('parameter(') == 3


@pytest.mark.parametrize('entry, message', [
    (f'ROOT b = f32[] custom-call(p0, p0), {_bind(_A)}',
     '1 annotations for 2 tensors'),
    (f'ROOT b = f32[] custom-call(p0), {_bind(_A, _B)}',
     '2 annotations for 1 tensors'),
    (f'ROOT b = f32[] custom-call(p0), {_bind(_A)}'.replace(
        'meshes', 'mesh'), 'damaged annotations'),
    ('ROOT b = f32[] custom-call(p0), '
     'custom_call_target="torch_xla.shardy.bind "', 'damaged annotations'),
    (f'''k = {_F} custom-call(p0),
          custom_call_target="torch_xla.shardy.tag garbage"
        ROOT c = {_F} custom-call(k), custom_call_target="Sharding",
          sharding={{replicated}}''', 'damaged annotations'),
])
def test_damaged_calls(entry, message):
  module = _module(f'    p0 = {_F} parameter(0)\n    {entry}')
  with pytest.raises(AnnotationTextError, match=message):
    extract.extract_annotations(module)
