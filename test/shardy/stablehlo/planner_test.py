"""Plans of programs in HLO, and the promise of Shardy's first attempt."""

import annotated_modules as modules
import pytest
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.annotate.call_target import binding_target
from torch_xla.shardy.compile.attempt import Attempt, Outcome
from torch_xla.shardy.compile.plan import Plan, Surroundings
from torch_xla.shardy.errors import BackendCompileError
from torch_xla.shardy.hlo import messages, op_sharding, protos
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.hlo.compiled_program import CompiledProgram
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.stablehlo.planner import Planner
from torch_xla.shardy.v2.to_v2 import ShardingCounts

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')

_EIGHT = CompileOptions(Partitioner.GSPMD, 1, 8)
_SAID = Annotation.from_spec(
    UserMesh.from_devices((2, 4), ('x', 'y')), (0, None), (1, None))
_F = 'f32[8,8]{1,0}'
_X = '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
_ON_ONE = 'm = f32[8,8]{1,0} negate(p0), sharding={maximal device=3}'


def _program(between: str = '', said: Annotation = _SAID) -> bytes:
  """An annotated parameter, and a result that is constrained."""
  return modules.module_of(f'''
    p0 = {_F} parameter(0), sharding={_X}
    b = f32[] custom-call(p0), {modules.bind(said)}
    {between}
    c = {_F} custom-call(p0), custom_call_target="Sharding", sharding={_X}
    ROOT t = (f32[], {_F}) tuple(b, c)''').SerializeToString()


def _plan(program: bytes, options: CompileOptions = _EIGHT, **fields) -> Plan:
  return Planner(Mode.SHARDY, Surroundings(**fields))(program, 'hlo', options)


def _attempts(plan: Plan) -> list[Attempt]:
  return [step.make({}) for step in plan.steps]


def test_shardy_first_and_then_gspmd():
  shardy, gspmd = _attempts(_plan(_program()))
  assert shardy.partitioner is Partitioner.SHARDY
  assert b'xla.sdy.sharding' in shardy.program
  assert gspmd.partitioner is Partitioner.GSPMD
  assert b'xla.sdy' not in gspmd.program
  assert gspmd.promise is None
  for attempt in shardy, gspmd:
    assert b'torch_xla.shardy' not in attempt.program
    assert attempt.shardings.v2 == 2
  # Who partitions in the end, what was said is told of.
  assert shardy.tensors == gspmd.tensors
  parameter, constraint = shardy.tensors
  assert (parameter.parameter, parameter.spec) == (0, "('x', None)")
  assert parameter.priority == (1, None)
  assert parameter.sdy == '#sdy.sharding<@mesh, [{"x"}p1, {}]>'
  assert (constraint.parameter, constraint.spec) == (None, None)


def test_what_nobody_annotated_is_for_shardy_too():
  """Stored placements, closed, over a mesh that is made of them."""
  module = modules.module_of(f'ROOT p0 = {_F} parameter(0), sharding={_X}')
  planned = _plan(module.SerializeToString())
  shardy, gspmd = _attempts(planned)
  assert gspmd.partitioner is Partitioner.GSPMD
  assert shardy.partitioner is Partitioner.SHARDY
  tensor, = shardy.tensors
  assert (tensor.spec, tensor.sdy) == (None,
                                       '#sdy.sharding<@mesh, [{"axis_0"}, {}]>')
  assert not planned.reason and not planned.note


def test_no_program_at_all_is_nobodys():
  planned = _plan(b'')
  attempt, = _attempts(planned)
  assert attempt.partitioner is Partitioner.GSPMD
  assert planned.reason == (
      'Shardy cannot be told of a program without an entry computation')


@pytest.mark.parametrize('options', [
    CompileOptions(Partitioner.NONE, 1, 8),
    CompileOptions(Partitioner.GSPMD, 8, 1),
])
def test_what_is_not_split_has_nothing_to_say(options):
  """The calls that no backend knows leave it all the same."""
  planned = _plan(_program(), options)
  attempt, = _attempts(planned)
  assert b'torch_xla.shardy' not in attempt.program
  assert not planned.note and not planned.reason


def test_what_shardy_cannot_be_told_is_a_reason():
  planned = _plan(_program(_ON_ONE))
  attempt, = _attempts(planned)
  assert attempt.partitioner is Partitioner.GSPMD
  assert planned.reason.startswith(
      'Shardy cannot be told of the sharding {maximal device=3}')
  tensor, = attempt.tensors  # What was asked for, though nobody was told.
  assert (tensor.spec, tensor.priority, tensor.sdy) == ("('x', None)",
                                                        (1, None), '')


@pytest.mark.parametrize('between', ['', _ON_ONE], ids=['shardy', 'gspmd'])
def test_tensors_have_the_users_names(between):
  known = {binding_target([_SAID]): ('the weight',)}
  planned = _plan(
      _program(between), names_of=lambda target: known.get(target, ()))
  assert planned.tensors[0].name == 'the weight'
  assert _plan(_program(between)).tensors[0].name == ''


def test_v2_is_one_attempt_by_gspmd():
  program = _v2_program('{devices=[4,2]0,4,1,5,2,6,3,7}')
  planned = Planner(Mode.V2)(program, 'hlo', _EIGHT)
  attempt, = _attempts(planned)
  assert planned.name == 'm'
  assert attempt == Attempt(
      _v2_program('{devices=[4,2]<=[2,4]T(1,0)}'), Partitioner.GSPMD,
      ShardingCounts(v2=1))


def test_v2_keeps_what_no_iota_says():
  """That is the record's to tell, and no reason to warn of."""
  program = _v2_program('{devices=[4,2]7,6,5,4,3,2,1,0}')
  planned = Planner(Mode.V2)(program, 'hlo', _EIGHT)
  attempt = planned.attempt()
  assert attempt.program is program
  assert attempt.shardings.v1 == 1
  assert planned.reason == planned.note == ''


def _v2_program(sharding: str) -> bytes:
  module = messages.make(protos.HloModuleProto, name='m')
  shape = messages.make(protos.ShapeProto, element_type=11, dimensions=[8, 8])
  module.computations.add().instructions.add(
      shape=shape.SerializeToString(),
      sharding=op_sharding.to_bytes(parse_sharding(sharding)))
  return module.SerializeToString()


def _promised(parameters=(_X,), results=('{replicated}', _X), **fields):
  """What the promise says of a program that was compiled to these layouts."""

  def parsed(texts):
    return None if texts is None else tuple(map(parse_sharding, texts))

  compiled = CompiledProgram(parsed(parameters), parsed(results), (), {})
  outcome = Outcome(b'', 0., **{'compiled': compiled, **fields})
  return _plan(_program()).attempt().promise(outcome)


def test_layouts_that_are_kept():
  assert _promised() is None
  # However they are written.
  listed = str(parse_sharding(_X).to_v1())
  assert _promised([listed], ['{replicated}', listed]) is None


@pytest.mark.parametrize('made, reason', [
    (dict(parameters=['{replicated}']),
     f'parameter 0, f32[8,8], is stored as {_X} and Shardy takes it as '
     '{replicated}'),
    (dict(results=['{replicated}', '{replicated}']),
     f'result 1 is to be laid out as {_X} and Shardy gives {{replicated}}'),
    (dict(results=['{unreduced}', _X]),
     'Shardy gives result 0 as {unreduced}: parts that are still to be added '
     'up'),
    (dict(parameters=None),
     'the backend does not report the layouts of parameters'),
    (dict(parameters=[_X, _X]),
     'the backend does not report the layouts of parameters'),
    (dict(results=None), 'the backend does not report the layouts of results'),
    (dict(results=[_X]), 'the backend does not report the layouts of results'),
    (dict(compiled=None),
     'the backend does not report the layouts of parameters'),
    (dict(compiled=None, error=BackendCompileError(3, 'no such op')),
     'the backend refused the program for Shardy (no such op)'),
])
def test_why_an_outcome_cannot_be_used(made, reason):
  assert _promised(**made) == reason


def test_only_what_is_constrained_is_promised_of_results():
  assert _promised(results=[_X, _X]) is None
