"""Programs that jaxlib cannot read or write, or XLA not partition."""

import logging
import re

import convolution_steps
import environments
import mlir_modules as modules
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import door
from torch_xla.shardy.annotate.annotation import Annotation, UserMesh
from torch_xla.shardy.compile.plan import Plan
from torch_xla.shardy.hlo.compile_options import CompileOptions, Partitioner
from torch_xla.shardy.mode import Mode
from torch_xla.shardy.stablehlo import dialects
from torch_xla.shardy.stablehlo.dialects import ProgramTextError
from torch_xla.shardy.stablehlo.forms import Form
from torch_xla.shardy.stablehlo.planner import Planner
from torch_xla.shardy.stablehlo.target import Target

ENVIRONMENT = environments.STABLEHLO
_EIGHT = CompileOptions(Partitioner.GSPMD, 1, 8)
_DAMAGED = b'ML\xefR\rStableHLO_v1.13.0\0nonsense'
_TAG = b'torch_xla.shardy.tag {}'


def _plan(program: bytes, version=(1, 13, 0)) -> Plan:
  target = Target(Form.SDY, version, '')
  return Planner(Mode.SHARDY, target=lambda: target)(program, 'mlir', _EIGHT)


@pytest.mark.parametrize('program', [
    _DAMAGED,
    b'module { "acme.op"() : () -> () }',
    b'module {',
    b'module { func.func @f() { return } }',
    b'module { func.func @main(%a: tuple<tensor<8xf32>>) -> tensor<8xf32> { '
    b'%b = stablehlo.get_tuple_element %a[0] : (tuple<tensor<8xf32>>) -> '
    b'tensor<8xf32> return %b : tensor<8xf32> } }',
])
def test_without_annotations_it_goes_as_from_the_official_wheel(program):
  planned = _plan(program)
  assert len(planned.steps) == 1
  attempt = planned.attempt()
  assert attempt.program == program
  assert attempt.partitioner is Partitioner.GSPMD
  assert re.search('MLIR|without a function main|as one tuple', planned.reason)


def test_annotations_are_not_lost_in_silence():
  with pytest.raises(ProgramTextError, match='jaxlib .* cannot read a program'):
    _plan(_DAMAGED + _TAG)


def test_what_cannot_be_converted_goes_without_our_calls():
  """Its shardings go as they came, as from the official wheel."""
  said = Annotation.from_spec(UserMesh.from_devices((8,), ('x',)), (0,), (1,))
  program = modules.main(
      '%a: F {mhlo.sharding = "{devices=[2,2,2]<=[8]}"}', 'F', f'''
    %k = {modules.tag(said, '%a')}
    %n = stablehlo.negate %k : F
    return %n : F''')
  planned = _plan(dialects.text(program).encode())
  assert 'cannot convert a program to HLO' in planned.reason
  assert len(planned.steps) == 1
  attempt = planned.attempt()
  assert attempt.partitioner is Partitioner.GSPMD
  assert b'torch_xla' not in attempt.program
  assert b'{devices=[2,2,2]<=[8]}' in attempt.program


def test_a_version_that_lacks_an_operation():
  """Composites came later than 0.17.0."""
  program = b'''module {
    func.func private @impl(%a: tensor<f32>) -> tensor<f32> {
      return %a : tensor<f32>
    }
    func.func @main(%a: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.composite "x.y" %a {decomposition = @impl}
          : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
  }'''
  assert not _plan(program).reason
  planned = _plan(program, (0, 17, 0))
  assert 'cannot write a program as StableHLO 0.17.0' in planned.reason
  assert planned.attempt().program == program


def test_a_damaged_program_is_an_error_and_the_process_goes_on(caplog):
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  a = torch.randn(8, 8)
  x = a.to('xla')
  xs.mark_sharding(x, mesh, ('x', None), priority=(0, None))
  torch_xla.sync()

  def damage(compilation: door.Compilation, rest: door.Compiler) -> None:
    compilation.program = compilation.program[:-40] + _TAG
    rest(compilation)

  undo = door.wrap(damage)
  y = x.sinh()
  with pytest.raises(Exception, match='ProgramTextError: jaxlib'):
    torch_xla.sync()
  undo()
  del y
  with caplog.at_level(logging.WARNING):
    torch.testing.assert_close(x.exp().cpu(), a.exp())
  assert not caplog.records


def test_what_a_plugin_refuses_is_told_in_text():
  """Priorities are kept: jaxlib 0.10 writes constraints on float8 anew."""
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  a = torch.randn(8, 4)
  x = a.to('xla')
  xs.mark_sharding(x, mesh, ('x', None), priority=(1, None))
  torch_xla.sync()
  y = x.to(torch.float8_e5m2)
  xs.mark_sharding(y, mesh, ('x', None), priority=(2, None))
  z = y.float()
  tried = []

  def no_dialect(compilation: door.Compilation, rest: door.Compiler) -> None:
    """A plugin that has the version and not the dialect."""
    hand_on = compilation.compile

    def compile_(program, options, program_format=None):
      tried.append(b'sdy\0' in program)
      hand_on(b'' if tried[-1] else program, options, program_format)

    compilation.compile = compile_
    rest(compilation)

  undo = door.wrap(no_dialect)
  with torch_xla.shardy.record() as programs:
    torch_xla.sync()
  undo()
  program, = programs
  assert tried == [True, False]
  assert program.form == 'attributes'
  assert program.partitioner is Partitioner.SHARDY
  assert program.note.startswith('the backend refused the program for Shardy')
  assert program.note.endswith(': Shardy is told in frontend attributes')
  assert torch.equal(z.cpu(), a.to(torch.float8_e5m2).float())


def test_convolutions_that_xla_would_partition_wrong():
  xr.use_spmd()
  for name in ('grouped', 'its gradient in parts'):
    program = convolution_steps.check(name)
    assert program.partitioner is Partitioner.SHARDY and program.form == 'sdy'
    assert program.note.startswith('convolutions, ')
