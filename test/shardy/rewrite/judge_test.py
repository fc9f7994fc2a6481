"""Another build of Shardy, jaxlib's, makes the same of the same programs."""

import programs
import pytest

pytest.importorskip('jaxlib', reason='needs jaxlib: its Shardy is the judge')
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('spmd')]

ENVIRONMENT = {**programs.ENVIRONMENT, 'JAX_PLATFORMS': 'cpu'}
# Reads the xla.sdy.* attributes of parameters; then all rounds of propagation.
IMPORT = 'builtin.module(xla-sdy-round-trip-import-shardy-attrs)'
PROPAGATE = 'builtin.module(sdy-propagation-pipeline)'


def walk(module, visit):
  from jaxlib.mlir import ir

  def go_on(op):
    visit(op)
    return ir.WalkResult.ADVANCE

  module.operation.walk(go_on, ir.WalkOrder.POST_ORDER)


def constrain(op):
  """Makes a `Sharding` call a constraint: jaxlib registers no pass for it."""
  from jaxlib.mlir import ir
  from jaxlib.mlir.dialects import sdy
  if op.name != 'stablehlo.custom_call':
    return
  assert ir.StringAttr(op.attributes['call_target_name']).value == 'Sharding'
  sharding, = sdy.TensorShardingPerValueAttr(
      op.attributes['sdy.sharding']).shardings
  with ir.InsertionPoint(op), op.location:
    constraint = sdy.ShardingConstraintOp(op.operands[0], sharding)
  op.results[0].replace_all_uses_with(constraint.result)
  op.erase()


def spec_of(op):
  """The partition spec that propagation gave the result of an operation."""
  from jaxlib.mlir.dialects import sdy
  if 'sdy.sharding' not in op.attributes:
    return (None,) * op.results[0].type.rank
  sharding, = sdy.TensorShardingPerValueAttr(
      op.attributes['sdy.sharding']).shardings
  dims = []
  for dim in sdy.TensorShardingAttr(sharding).dimension_shardings:
    axes = sdy.DimensionShardingAttr(dim).axes
    dims.append(tuple(sdy.AxisRefAttr(axis).name for axis in axes))
  return tuple(dims)


def propagated_specs(program, opcodes):
  """What jaxlib's Shardy gives the operations of each opcode.

  Args:
    program: a serialised HloModuleProto, lowered for Shardy.
  """
  from jax._src.interpreters import mlir
  from jaxlib import _jax
  from jaxlib.mlir import ir, passmanager
  specs = {opcode: set() for opcode in opcodes}

  def read(op):
    opcode = op.name.removeprefix('stablehlo.')
    if opcode in specs and op.results[0].type.rank:
      specs[opcode].add(spec_of(op))

  with mlir.make_ir_context():
    module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(program))
    passmanager.PassManager.parse(IMPORT).run(module.operation)
    walk(module, constrain)
    passmanager.PassManager.parse(PROPAGATE).run(module.operation)
    walk(module, read)
  return specs


@pytest.mark.parametrize('program, which', programs.JUDGED)
def test_judge(program, which):
  ran = programs.run(program, which)
  judged = propagated_specs(ran.record.handed_on, program.between)
  for opcode, spec in which.between.items():
    assert judged[opcode] == {tuple(map(programs.axes_of, spec))}
    judged_spec, = judged[opcode]
    shape = program.between[opcode]
    assert programs.computed_shapes(ran.compiled, opcode, len(shape)) == {
        programs.local_shape(shape, judged_spec)
    }
