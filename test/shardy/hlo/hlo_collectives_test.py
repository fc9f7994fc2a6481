"""Which collectives the instructions of a computation start."""

from __future__ import annotations

import pytest
from torch_xla.shardy.hlo import collectives, messages, protos

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')
_GROUPS = 'channel_id=1, replica_groups=[4,2]<=[8], use_global_device_ids=true'
_ADD = '''
add {
  left = f32[] parameter(0)
  right = f32[] parameter(1)
  ROOT sum = f32[] add(left, right)
}
'''


def _started(body: str, result: str, name: str = 'fused'):
  """The (kind, bytes) of a fusion's collectives, and of those around it."""
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(f'''HloModule m
{_ADD}
fused {{
  q = f32[8]{{0}} parameter(0)
{body}
}}
ENTRY e {{
  p = f32[8]{{0}} parameter(0)
  ROOT f = {result} fusion(p), kind=kCustom, calls=fused
}}
''').as_serialized_hlo_module_proto())
  computation = next(c for c in module.computations if c.name == name)
  return [(s.kind, s.nbytes) for s in collectives.started_in(computation)]


_GATHER = (f'  g = f32[16]{{0}} all-gather(q), dimensions={{0}}, {_GROUPS}, '
           'frontend_attributes={chain_id="3"}\n')
_CALL = ('  ROOT c = (f32[8]{0}, f32[16]{0}) custom-call(g), '
         'custom_call_target="%s"')
_BOTH = '(f32[8]{0}, f32[16]{0})'


@pytest.mark.parametrize('target, count', [
    ('AsyncCollectiveStart', 1),
    ('AsyncCollectiveDone', 0),
])
def test_of_a_chain_only_the_first_step_counts(target, count):
  assert _started(_GATHER + _CALL % target,
                  _BOTH) == [('all-gather', 64)] * count


def test_a_step_among_others_does_not_count():
  assert _started(_GATHER + f'  ROOT t = {_BOTH} tuple(q, g)', _BOTH) == []


def test_one_that_is_no_chain_counts_in_a_fusion():
  gather = _GATHER.replace(', frontend_attributes={chain_id="3"}', '')
  assert _started(gather + f'  ROOT t = {_BOTH} tuple(q, g)',
                  _BOTH) == [('all-gather', 64)]


def test_what_is_fused_is_not_of_the_program_around_it():
  assert _started(_GATHER + _CALL % 'AsyncCollectiveStart', _BOTH, 'e') == []


_REDUCE = f'''  z = s32[] constant(0)
  r = f32[8]{{0}} all-reduce(q), to_apply=add, {_GROUPS}
'''
_SLICE = 'dynamic-slice(%s, z), dynamic_slice_sizes={4}'


@pytest.mark.parametrize(
    'rest, kind',
    [
        (f'  ROOT s = f32[4]{{0}} {_SLICE % "r"}', 'reduce-scatter'),
        (f'''  b = f32[8]{{0}} bitcast(r)
  ROOT s = f32[4]{{0}} {_SLICE % "b"}''', 'reduce-scatter'),
        ('  ROOT s = f32[4]{0} slice(r), slice={[0:4]}', 'all-reduce'),
        # The whole is used, too.
        (f'''  s = f32[4]{{0}} {_SLICE % "r"}
  n = f32[8]{{0}} negate(r)
  ROOT t = f32[4]{{0}} {_SLICE % "n"}''', 'all-reduce'),
        # As something else's second operand.
        (f'''  s = f32[4]{{0}} {_SLICE % "r"}
  n = f32[8]{{0}} add(q, r)
  ROOT t = f32[4]{{0}} {_SLICE % "n"}''', 'all-reduce'),
    ])
def test_a_reduction_of_which_each_keeps_a_slice(rest, kind):
  assert _started(_REDUCE + rest, 'f32[4]{0}') == [(kind, 32)]


def test_a_reduction_outside_of_fusions_makes_the_whole():
  module = messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(f'''HloModule m
{_ADD}
ENTRY e {{
  q = f32[8]{{0}} parameter(0)
{_REDUCE}
  ROOT s = f32[4]{{0}} {_SLICE % "r"}
}}
''').as_serialized_hlo_module_proto())
  entry = next(c for c in module.computations if c.name == 'e')
  assert [s.kind for s in collectives.started_in(entry)] == ['all-reduce']
