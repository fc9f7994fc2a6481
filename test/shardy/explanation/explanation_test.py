"""What an explanation says: the smallest program for each rule."""

import json
import os
import signal

import numpy as np
from printed import assert_printed
import processes
import pytest
import torch

pytest.importorskip('jaxlib', reason='needs jaxlib: MLIR')
# pylint: disable=wrong-import-position
from torch_xla.shardy import explanation
from torch_xla.shardy.explanation import (backend, conflicts, in_subprocess,
                                          page, reader)
from torch_xla.shardy.explanation.conflicts import Reason
from torch_xla.shardy.stablehlo import dialects
from small_programs import ADD as _ADD, DOT as _DOT, explained_of, T as _T

ENVIRONMENT = {}  # Beside the tests that need no child.
_SETTINGS = dict(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1')


def _refused(explained: explanation.Explanation) -> list[tuple[str, Reason]]:
  """The refusals by axis, where nobody said it to be otherwise."""
  return [(one.axis, one.reason)
          for one in conflicts.refusals(explained.propagation)
          if one.reason is not Reason.SAID]


@pytest.mark.parametrize('body, a, b, reason', [
    (_ADD, '{"x"}p0, {}', '{}, {"x"}p1', Reason.USED),
    (_ADD, '{"x"}p0, {}', '{"y"}p1, {}', Reason.OTHER_AXIS),
    (_DOT, '{"x"}p0, {}', '{}, {"x"}p1', Reason.USED),
])
def test_conflicts_of_two(body, a, b, reason):
  explained = explained_of(body, a, b)
  one, = explained.conflicts
  origins = explained.propagation.origins
  assert [origins[n].name for n in (one.loser, one.winner)] == ['b', 'a']
  place, = one.places
  assert place.reason is reason
  assert explained.propagation.tensors[place.target].own == ''
  assert 'a won by priority 0 before 1' in str(explained)
  # The other way round the other one wins.
  turned = explained_of(body, a.replace('p0', 'p2'), b)
  other, = turned.conflicts
  assert (other.loser, other.winner) == (one.winner, one.loser)


def test_what_was_there_first_is_the_reason():
  body = f'''%n = stablehlo.negate %b : {_T}
    %0 = stablehlo.add %n, %a : {_T}'''
  explained = explained_of(body, '{"x"}p2, {}', '{"y"}p1, {"x"}p0')
  assert _refused(explained) == [('x', Reason.USED)] * 2


def test_what_is_said_to_turn_a_conflict_does():
  explained = explained_of(_ADD, '{"x"}p0, {}', '{}, {"x"}p1')
  assert 'turned by priority=(None, 0) on b and priority=(1, None) on a (tried)' in (
      str(explained))
  one, = explained.conflicts
  assert explained.turning(one) == {('input: 1', 1): 0, ('input: 0', 0): 1}


def test_what_conflicts_move_is_what_shardy_plans():
  text = str(explained_of(_ADD, '{"x"}p0, {}', '{}, {"x"}p1'))
  assert 'moved, as Shardy plans it: 1 all-to-all (128 bytes)' in text
  assert '  moved there: 1 all-to-all (128 bytes)' in text
  # Of a sum over what is split, none is in conflict.
  text = str(explained_of(_DOT, '{}, {"x"}', '{"x"}, {}'))
  assert 'moved, as Shardy plans it: 1 all-reduce (256 bytes)' in text


def test_what_is_whole():
  explained = explained_of(_DOT, '{}, {"x"}', '{"x"}, {}')
  assert explained.whole(256) == (
      'dot_general.1 f32[8,8], 256 bytes: what splits other tensors there is '
      'no dimension of it')
  assert explained.whole() == (
      'every computed tensor of 1,048,576 bytes or more is split')
  explained = explained_of(_ADD, '{}, {}', '{}, {}')
  assert 'nothing that it is computed with is split' in explained.whole(1)


_NEGATED_SUM = f"""%n = stablehlo.negate %a : {_T}
  %0 = stablehlo.add %n, %b : {_T}"""


def test_why_not():
  explained = explained_of(_NEGATED_SUM, '{"x"}, {}', '{}, {}')
  assert_printed(
      explained.why_not('add.2', (None, 'x')), """\
add.2 f32[8,8] is ('x', None), and not (None, 'x')
  'x' splits another dimension of it, by a
  it can be, before all else
  other tensors that are split otherwise then: 1
    negate.1 f32[8,8] ('x', None) -> (None, 'x')
  moved now, as Shardy plans it: none
  moved then: 1 all-to-all (128 bytes)""")
  # Of an argument it is another annotation, which the sum follows.
  assert 'moved then: none' in explained.why_not('a', (None, 'x'))
  assert "'x' was refused at add.2: it is said to be otherwise" in (
      explained.why_not('b', ('x', None)))
  assert explained.why_not('add.2',
                           ['x', None]) == ("add.2 f32[8,8] is ('x', None)")


@pytest.mark.parametrize('name, spec, said', [
    ('ad.2', ('x', None), 'did you mean add.2'),
    ('zzz', ('x', None), "called 'zzz': --tensor '.' has all"),
    ('add.2', ('x',), 'has 1 entries'),
    ('add.2', ('z', None), 'no axis of the mesh, which has x, y'),
    ('add.2', ('x', 'x'), 'is there twice'),
])
def test_why_not_of_what_is_not_there(name, spec, said):
  explained = explained_of(_NEGATED_SUM, '{"x"}, {}', '{}, {}')
  with pytest.raises(ValueError, match=said):
    explained.why_not(name, spec)


def test_same_priority():
  text = str(explained_of(_ADD, '{"x"}, {}', '{}, {"x"}'))
  assert 'both have priority 0: a won by the order' in text


@pytest.mark.parametrize('body, said, shape, result, reason', [
    ('%0 = stablehlo.reshape %a : (tensor<3x8xf32>) -> tensor<24xf32>',
     '{}, {"x"}', '3x8', '24', Reason.MINOR),
    ('%0 = stablehlo.reshape %a : (tensor<6xf32>) -> tensor<3x2xf32>', '{"x"}',
     '6', '3x2', Reason.INDIVISIBLE),
    ('''%i = stablehlo.constant dense<1> : tensor<i32>
     %0 = stablehlo.dynamic_slice %a, %i, %i, sizes = [4, 8] :
     (tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>''',
     '{"x"}, {}', '8x8', '4x8', Reason.BLOCKED),
])
def test_refused_without_a_conflict(body, said, shape, result, reason):
  explained = explained_of(body, said, shape=shape, result=result)
  assert _refused(explained) == [('x', reason)]
  assert explained.conflicts == ()


def test_part_of_an_axis_goes_on():
  explained = explained_of(
      '%0 = stablehlo.reshape %a : (tensor<8xf32>) -> tensor<2x4xf32>',
      '{"y"}',
      shape='8',
      result='2x4')
  made = explained.propagation.tensors[-1]
  assert [d.axes for d in made.dims] == [('y:(1)2',), ('y:(2)2',)]
  assert _refused(explained) == []


def test_way_of_an_axis():
  body = f'''%n = stablehlo.negate %a : {_T}
    %t = stablehlo.transpose %n, dims = [1, 0] : ({_T}) -> {_T}
    %0 = stablehlo.sine %t : {_T}'''
  assert explained_of(body, '{"x"}, {"y"}').tensors('sine*') == '''\
sine.3 f32[8,8] ('y', 'x')
  'y' of a -> negate.1 -> transpose.2 -> sine.3
  'x' of a -> negate.1 -> transpose.2 -> sine.3'''


def test_calls_are_gone_through():
  body = f'''%n = func.call @inner(%a) : ({_T}) -> {_T}
    %0 = func.call @inner(%n) : ({_T}) -> {_T}'''
  inner = f'''func.func private @inner(%v: {_T}) -> {_T} {{
    %w = stablehlo.sine %v : {_T}
    return %w : {_T} }}'''
  assert explained_of(
      body, '{"x"}, {}', inner=inner).tensors('sine.2') == '''\
sine.2 f32[8,8] ('x', None)
  'x' of a -> sine.1 -> sine.2'''


def test_constraints_and_loops():
  body = f'''%z = stablehlo.constant dense<0> : tensor<i32>
    %w:2 = stablehlo.while(%i = %z, %v = %a) : tensor<i32>, {_T}
      cond {{
        %c = stablehlo.compare LT, %i, %z :
          (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %s = stablehlo.sine %v : {_T}
        %k = sdy.sharding_constraint %s <@mesh, [{{?}}, {{"y", ?}}p1]> : {_T}
        stablehlo.return %i, %k : tensor<i32>, {_T}
      }}
    %0 = stablehlo.negate %w#1 : {_T}'''
  explained = explained_of(body, '{"x"}p0, {}')
  negate = explained.propagation.tensors[-1]
  assert [d.axes for d in negate.dims] == [('x',), ('y',)]
  origins = explained.propagation.origins
  assert [origins[negate.origin_of(a)].name for a in 'xy'
         ] == ['a', 'constraint 0']


def test_layers_that_are_alike_are_one():
  names = ['t', 'h.0.w', 'h.1.w']
  arguments = ', '.join(
      f'%{n}: {_T} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}'
      for n, dims in zip('abc', ('{"x"}p0, {}', '{}, {"x"}p1', '{}, {"x"}p1')))
  text = f'''sdy.mesh @mesh = <["x"=2]>
    func.func @main({arguments}) -> {_T} {{
      %0 = stablehlo.add %a, %b : {_T}
      %1 = stablehlo.add %0, %c : {_T}
      return %1 : {_T}
    }}'''
  explained = explanation.explain('m', text.encode(), dict(enumerate(names)))
  one, = explained.conflicts
  assert one.alike == 1
  assert "1. h.0.w (None, 'x') against t ('x', None), and 1 alike" in (
      str(explained))


def test_constraints_of_layers_that_are_alike_are_one():
  explained = explained_of(
      f"""%c = sdy.sharding_constraint %b <@mesh, [{{}}, {{"x"}}]> : {_T}
     %d = stablehlo.negate %b : {_T}
     %e = sdy.sharding_constraint %d <@mesh, [{{}}, {{"x"}}]> : {_T}
     %1 = stablehlo.add %a, %c : {_T}
     %2 = stablehlo.add %a, %e : {_T}
     %0 = stablehlo.add %1, %2 : {_T}""", '{"x"}p0, {}', '{}, {}')
  one, = explained.conflicts
  assert one.alike == 1


def test_what_ends_shardy_ends_no_process():
  assert in_subprocess.run(lambda: os.kill(os.getpid(), signal.SIGSEGV)) is None
  with pytest.raises(ZeroDivisionError):
    in_subprocess.run(lambda: 1 // 0)


_QKV = 'tensor<16x192xf32>) -> tensor<16x3x4x16xf32>'


@pytest.mark.parametrize('body, a, b', [
    (f"""%n = stablehlo.negate %a : {_T}
     %t = stablehlo.transpose %n, dims = [1, 0] : ({_T}) -> {_T}
     %k = sdy.sharding_constraint %b <@mesh, [{{"y"}}, {{}}]> : {_T}
     %0 = stablehlo.add %t, %k : {_T}""", '{"x"}p1, {}', '{}, {}'),
    (_DOT, '{"x"}, {}', '{}, {"y"}'),
])
def test_ways_inferred_are_shardys(body, a, b):
  explained = explained_of(body, a, b)
  told = explained.propagation
  inferred = reader.propagate(reader.parse(explained.program))
  assert inferred.is_inferred and not told.is_inferred
  for number, (one, other) in enumerate(
      zip(told.tensors, inferred.tensors, strict=True)):
    assert [(x, one.origin_of(x), told.path(number, x)) for x in one.axes] == [
        (x, other.origin_of(x), inferred.path(number, x)) for x in other.axes
    ]


def test_program_of_which_shardy_does_not_tell():
  # Of what is split by parts that do not divide by the axis, as a fused
  # projection of queries, keys and values.
  negates = '\n'.join(f'%{n + 1} = stablehlo.negate %{n} : tensor<16x192xf32>'
                      for n in range(1, 12))
  explained = explained_of(
      f"""%1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] :
        (tensor<16x64xf32>, tensor<192x64xf32>) -> tensor<16x192xf32>
      {negates}
      %0 = stablehlo.reshape %12 : ({_QKV}""",
      '{"x"}, {}',
      '{"y"}, {}',
      shape='16x64',
      other='192x64',
      result='16x3x4x16')
  assert explained.propagation.is_inferred
  assert 'came from is inferred' in str(explained)
  assert "'y' of b -> dot_general.1" in explained.tensors('dot_general.1')


def _embedding(shown: str) -> tuple[str, str]:
  """Explains rows that may follow a table or tokens, before a sync."""
  import torch_xla
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  backend.show(os.environ, shown)
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (8,), ('x',))
  table, tokens = torch.zeros(16, 8).to('xla'), torch.zeros(
      8, dtype=torch.int64).to('xla')
  xs.mark_sharding(table, mesh, (None, 'x'), priority=(None, 1))
  xs.mark_sharding(tokens, mesh, ('x',), priority=(0,))
  torch_xla.shardy.name_tensors(dict(table=table, tokens=tokens))
  torch_xla.sync()
  rows = table[tokens]
  before = str(torch_xla.shardy.explain([rows]))
  with torch_xla.shardy.record() as programs:
    torch_xla.sync()
  after, = explanation.of_records(programs, shown)
  # Compiled outside of a sync, it goes without what was said.
  rows = table[tokens] * 2
  with torch_xla.shardy.record() as programs:
    torch_xla._XLAC._xla_warm_up_cache([rows], [])
  lost, = explanation.of_records(programs)
  return before, json.dumps(explanation.as_json(after)), str(lost), page.html(
      [lost])


def test_of_tensors_and_records(tmp_path):
  before, after, *lost = processes.call(_embedding, str(tmp_path),
                                        **_SETTINGS).value
  assert ("table (None, 'x') against tokens ('x',)\n"
          "  'x' does not come to dimension 1 of gather.") in before
  assert 'tokens won by priority 0 before 1' in before
  told = json.loads(after)
  assert "backend's own Shardy chose the same for all " in told['backend']
  assert {t['where'].partition(':')[0] for t in told['tensors']
         } == {'explanation_test.py'}
  one, = told['conflicts']
  assert (one['loser'], one['winner'], one['axis']) == ('table', 'tokens', 'x')
  assert one['turned_by'] == (
      'priority=(None, 0) on table and priority=(1,) on tokens')
  for text in lost:
    assert '2 without their annotation: table, tokens' in text


def test_backend_that_chose_otherwise(tmp_path):
  explained = explained_of(_ADD, '{"x"}p0, {}', '{}, {"x"}p1')
  assert 'not compared' in backend.compared(
      str(tmp_path), 'm', explained.propagation)
  shown = tmp_path / 'shardy' / 'module_0000.m'
  shown.mkdir(parents=True)
  (shown / '01.before_propagation.mlir').write_bytes(explained.program)
  for after, said in ((explained.program, 'chose the same for all 3 tensors'),
                      (explained.program.replace(b'p1',
                                                 b'p2').replace(b'p0', b'p3'),
                       'otherwise for 1 of 3 tensors, first '
                       "add.1 f32[8,8]: (None, 'x'), and not ('x', None)")):
    module = dialects.read(after)
    dialects.run('builtin.module(sdy-propagation-pipeline)', module, '')
    (shown / '02.after_propagation.mlir').write_text(str(module))
    assert said in backend.compared(str(tmp_path), 'm', explained.propagation)


_SCRIPT = '''
import torch, torch_xla
t = torch.ones(2).to('xla') + 1
torch_xla.sync()
raise KeyError('mine')
'''


@pytest.mark.slow
def test_script_that_has_nothing_to_explain(tmp_path):
  script = tmp_path / 'script.py'
  script.write_text(_SCRIPT)
  ended = processes.command('torch_xla.shardy', 'explain', script, **_SETTINGS)
  assert ended.returncode == 3
  assert "KeyError: 'mine'" in ended.stderr
  assert "script.py failed (KeyError: 'mine')\n" in ended.stderr
  script.write_text(_SCRIPT.partition('raise')[0])
  ended = processes.command('torch_xla.shardy', 'explain', script, **_SETTINGS)
  assert ended.returncode == 2
  assert 'mark some with xs.mark_sharding' in ended.stdout


_MOVING = '''
import numpy as np
import torch, torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
xr.use_spmd()
mesh = xs.Mesh(np.arange(8), (8,), ('x',))
a, b = torch.ones(8, 8).to('xla'), torch.ones(8, 8).to('xla')
torch_xla.shardy.name_tensors({'a': a, 'b': b})
xs.mark_sharding(a, mesh, ('x', None))
xs.mark_sharding(b, mesh, (None, 'x'))
c = a + b
torch_xla.sync()
'''


@pytest.mark.slow
@pytest.mark.parametrize('least, name, status', [
    (1, 'a', 1),
    (1, 'aa', 2),
])
def test_script_that_must_not_move(tmp_path, least, name, status):
  script = tmp_path / 'script.py'
  script.write_text(_MOVING)
  ended = processes.command('torch_xla.shardy', 'explain',
                            f'--no-implicit-collectives={least}', '--why-not',
                            name, '(None, "x")', script, **_SETTINGS)
  assert ended.returncode == status, ended.stderr
  assert ('implicit collectives: ' in ended.stdout) == (status == 1)
  assert ("error: --why-not: no tensor is called 'aa': did you mean a?"
          in ended.stderr) == (
              status == 2)
