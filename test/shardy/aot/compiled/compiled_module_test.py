"""Which computations of a compiled program run, and how often."""

import compiled_texts
import pytest
from torch_xla.shardy.aot.compiled import compiled_module
from torch_xla.shardy.hlo import messages, protos

_PARAMETER = '  ROOT p = f32[4]{0} parameter(0)'


def _times(module) -> dict[str, int]:
  names = {c.id: c.name for c in module.message.computations}
  return {names[i]: times for i, times in module.times.items() if times}


def test_the_entry_runs_once():
  module = compiled_texts.module(_PARAMETER)
  assert _times(module) == {'e': 1}
  assert module.entry.name == 'e'
  assert [(c.name, n) for c, n in module.run()] == [('e', 1)]


def test_loops_in_loops_multiply():
  others = compiled_texts.counted('inner', 3) + compiled_texts.counted(
      'outer', 5, compiled_texts.run('inner'))
  module = compiled_texts.module(
      compiled_texts.run('outer') + '\n  ROOT p = f32[4]{0} parameter(0)',
      others)
  assert _times(module) == {
      'e': 1,
      'outer_body': 5,
      'outer_condition': 6,
      'inner_body': 15,
      'inner_condition': 20,
  }
  assert module.loops_counted_once == 0


def test_a_loop_that_does_not_tell_counts_once():
  module = compiled_texts.module(
      '  n = s32[] parameter(0)\n' + compiled_texts.run('l', 'n') +
      '\n  ROOT g = s32[] get-tuple-element(out_l), index=0',
      compiled_texts.counted('l', 5))
  assert _times(module) == {'e': 1, 'l_body': 1, 'l_condition': 2}
  assert module.loops_counted_once == 1


def test_what_is_called_twice_runs_twice():
  module = compiled_texts.module(
      '''  p = f32[4]{0} parameter(0)
  a = f32[4]{0} call(p), to_apply=called
  ROOT b = f32[4]{0} call(a), to_apply=called''',
      'called {\n  q = f32[4]{0} parameter(0)\n  ROOT n = f32[4]{0} negate(q)\n'
      '}\n')
  assert _times(module) == {'e': 1, 'called': 2}


def test_each_branch_counts_as_taken():
  branch = '{{\n  q = f32[4]{{0}} parameter(0)\n  ROOT n = f32[4]{{0}} {}(q)\n}}'
  module = compiled_texts.module(
      '''  c = pred[] parameter(0)
  p = f32[4]{0} parameter(1)
  ROOT r = f32[4]{0} conditional(c, p, p), true_computation=yes,
    false_computation=no''',
      f'yes {branch.format("negate")}\nno {branch.format("exponential")}\n')
  assert _times(module) == {'e': 1, 'yes': 1, 'no': 1}


def test_what_is_fused_or_applied_does_not_run_by_itself():
  module = compiled_texts.module(
      '''  p = f32[4]{0} parameter(0)
  f = f32[4]{0} fusion(p), kind=kLoop, calls=fused
  z = f32[] constant(0)
  ROOT r = f32[] reduce(f, z), dimensions={0}, to_apply=add''',
      'fused {\n  q = f32[4]{0} parameter(0)\n  ROOT n = f32[4]{0} negate(q)\n'
      '}\n')
  assert _times(module) == {'e': 1}


def test_what_runs_beside_runs():
  module = compiled_texts.module(
      '''  p = f32[4]{0} parameter(0)
  s = ((f32[4]{0}), f32[2]{0}, u32[]) async-start(p), calls=wrapped
  ROOT d = f32[2]{0} async-done(s)''',
      'wrapped {\n  q = f32[4]{0} parameter(0)\n'
      '  ROOT n = f32[2]{0} slice(q), slice={[0:2]}\n}\n')
  assert _times(module) == {'e': 1, 'wrapped': 1}


def test_devices_are_those_of_the_device_assignment():
  given = compiled_texts.module(_PARAMETER, partitions=8)
  assert (given.replicas, given.partitions) == (1, 8)
  without = compiled_texts.module(_PARAMETER)
  assert (without.replicas, without.partitions) == (1, None)


def test_a_module_with_its_config_reads_the_same():
  message = messages.make(protos.HloModuleProtoWithConfig)
  message.hlo_module.MergeFromString(compiled_texts.serialised(_PARAMETER))
  module = compiled_module.read(message.SerializeToString(), 'hlo_with_config')
  assert module.entry.name == 'e'


def test_another_format_is_refused():
  with pytest.raises(ValueError, match="format 'mlir' cannot be read.*hlo"):
    compiled_module.read(b'', 'mlir')


def test_a_damaged_program_is_refused():
  with pytest.raises(ValueError, match='not a valid HloModuleProto'):
    compiled_module.read(b'\xff', 'hlo')
  with pytest.raises(ValueError, match='no entry computation'):
    compiled_module.read(b'', 'hlo')


def test_donated_arguments_are_parameters_or_elements_of_a_tuple():
  message = messages.make(protos.HloModuleProto)
  entries = message.input_output_alias.entries
  entries.add(parameter_number=2)
  entries.add(parameter_number=0, parameter_shape_index=[3])
  module = compiled_module.CompiledModule(message, None, {}, {}, 0)
  assert module.donated == (2, 3)
