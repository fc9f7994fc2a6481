"""Programs as a compiler leaves them, from HLO text."""

import pytest
from torch_xla.shardy.aot.compiled import compiled_module
from torch_xla.shardy.aot.compiled.compiled_module import CompiledModule
from torch_xla.shardy.hlo import messages, protos

hlo = pytest.importorskip('jaxlib._hlo', reason='needs jaxlib: HLO text')

ADD = '''
add {
  left = f32[] parameter(0)
  right = f32[] parameter(1)
  ROOT sum = f32[] add(left, right)
}
'''


def serialised(entry: str, others: str = '', header: str = '') -> bytes:
  """An HloModuleProto; computation `add` is there to be applied."""
  return hlo.hlo_module_from_text(
      f'HloModule m{header}\n{ADD}{others}\nENTRY e {{\n{entry}\n}}\n'
  ).as_serialized_hlo_module_proto()


def module(entry: str,
           others: str = '',
           header: str = '',
           partitions: int = 0) -> CompiledModule:
  """The same as it is read; `partitions` go into its device assignment."""
  message = messages.parse(protos.HloModuleProto,
                           serialised(entry, others, header))
  if partitions:
    message.device_assignment.replica_count = 1
    message.device_assignment.computation_count = partitions
  return compiled_module.read(message.SerializeToString(), 'hlo')


def loop(name: str, body: str, condition: str, state: str = '(s32[])') -> str:
  """A body and a condition over `state`; in both it is called p."""
  return (f'{name}_body {{\n  p = {state} parameter(0)\n{body}\n}}\n'
          f'{name}_condition {{\n  p = {state} parameter(0)\n{condition}\n}}\n')


def counted(name: str, trips: int, work: str = '') -> str:
  """A loop over a counter that runs `trips` times; `work` is in its body."""
  return loop(
      name, f'''
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
{work}
  next = s32[] add(i, one)
  ROOT t = (s32[]) tuple(next)''', f'''
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT''')


def run(name: str, start: str = 'zero') -> str:
  """Runs such a loop in another computation."""
  return f'''
  zero_{name} = s32[] constant(0)
  in_{name} = (s32[]) tuple({start.replace('zero', f'zero_{name}')})
  out_{name} = (s32[]) while(in_{name}), body={name}_body,
    condition={name}_condition'''
