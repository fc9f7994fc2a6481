"""The words for what a collective comes from."""

import zlib

from torch_xla.shardy.compile.causes import causes
from torch_xla.shardy.compile.record import ProgramRecord, TensorRecord
from torch_xla.shardy.hlo import messages
from torch_xla.shardy.hlo.array_shape import ArrayShape
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.hlo.compiled_program import group_by_kind
from torch_xla.shardy.hlo.protos import HloModuleProto
from torch_xla.shardy.sharding.hlo_sharding import REPLICATED


def _program() -> bytes:
  """reduce.4 of dot.3 of relu.2 of the parameters 0 and, through it, 1."""
  module = messages.make(HloModuleProto, entry_computation_id=1)
  entry = module.computations.add(id=1, root_id=4)
  for i, (name, opcode, operands) in enumerate(
      (('p.0', 'parameter', ()), ('p.1', 'parameter', ()),
       ('relu.2', 'maximum', (1,)), ('dot.3', 'dot',
                                     (0, 2)), ('reduce.4', 'reduce', (3,)))):
    entry.instructions.add(
        id=i,
        name=name,
        opcode=opcode,
        parameter_number=i,
        operand_ids=operands)
  return module.SerializeToString()


def _record(*sources: str, packed: bytes) -> ProgramRecord:
  shape = ArrayShape('f32', (4,), 32)
  tensors = tuple(
      TensorRecord(
          i, f'p.{i}', shape, None, None, '', REPLICATED, ('', ''), name=name)
      for i, name in enumerate(('up.weight', 'down.weight')))
  return ProgramRecord(
      'm',
      'hlo',
      CompileOptions(Partitioner.SHARDY, 1, 8),
      0.,
      tensors=tensors,
      collectives=group_by_kind(
          ('all-reduce', 4, source) for source in sources),
      packed=packed)


def test_the_nearest_weights_are_named():
  record = _record(
      'dot.3', 'relu.2', 'aten__mm.7', '', packed=zlib.compress(_program()))
  assert causes(record) == {
      'dot.3': 'dot of up.weight',
      'relu.2': 'maximum of down.weight',
      'aten__mm.7': 'aten__mm',
      '': 'a source that metadata do not tell'
  }
  (made,) = record.collectives
  assert made.sources[0] == ('', 1, 4) and made.count == 4


def test_a_program_that_is_not_there_any_more():
  record = _record('dot.3', packed=None)
  assert causes(record) == {'dot.3': 'dot'}
