"""What torch_xla emits survives the way to HLO and back, operation by operation.

Of each operation of the conformance suite the program that `_XLAC` sends is
taken there and back; XLA then makes of both the same HLO. In the form `plain` it
is StableHLO alone.
"""

import collections

import mlir_modules as modules
import pytest
import torch
import torch_xla
from torch_xla_conformance.operations import operations
from torch_xla.shardy.hlo import array_shape, messages, protos
from torch_xla.shardy.stablehlo import conversion, dialects, forms, printed

pytest.importorskip('jaxlib', reason='needs jaxlib: it converts')
ENVIRONMENT = {'PJRT_DEVICE': 'CPU', 'XLA_USE_SHARDY': '1'}
_FAMILIES = collections.defaultdict(list)
for _operation in operations():
  _FAMILIES[_operation.family].append(_operation)
# torch copies nothing: there is no program.
_NO_PROGRAM = {'special_copy'}


def _sent(operation) -> bytes:
  """The program that is sent for an operation; empty if there is none."""
  given = [t.to('xla') for t in operation.given(0)]
  torch_xla.sync()
  made = operation.call(*given)
  made = [made] if isinstance(made, torch.Tensor) else list(made)
  if not any(torch_xla._XLAC._check_tensor_need_materialization(made)):
    return b''
  return printed.artifact_with_calls(made)


def _computed(program: bytes) -> collections.Counter:
  """What an artifact computes, as XLA reads it; not how constants are made."""
  module = messages.parse(protos.HloModuleProto,
                          dialects.to_hlo(dialects.read(program)))
  return collections.Counter(
      (i.opcode, i.custom_call_target, array_shape.arrays_of(i.shape))
      for c in module.computations
      for i in c.instructions
      if i.opcode not in ('constant', 'broadcast', 'reshape', 'iota'))


def _there_and_back(program: bytes) -> bytes:
  message = conversion.to_hlo(dialects.read(program))
  return dialects.write(
      conversion.from_hlo(message), dialects.artifact_version(program))


def _foreign(program: bytes) -> set[str]:
  """What is not StableHLO in the plain form of an artifact."""
  module = modules.in_form(
      modules.in_hlo(dialects.read(program)), forms.Form.PLAIN)
  names = {operation.name for operation in dialects.operations_of(module)}
  return {
      name for name in names
      if name == 'stablehlo.custom_call' or name.split('.')[0] not in (
          'builtin', 'func', 'stablehlo')
  }


def _check(tried) -> None:
  for operation in tried:
    program = _sent(operation)
    assert bool(program) == (operation.name not in _NO_PROGRAM), operation.name
    if program:
      back = _there_and_back(program)
      assert _computed(back) == _computed(program), operation.name
      assert (b'mhlo.' in back) <= (b'mhlo.' in program), operation.name
      assert not _foreign(program), operation.name


@pytest.mark.slow
def test_one_of_each_family():
  _check(members[-1] for members in _FAMILIES.values())


@pytest.mark.nightly
@pytest.mark.parametrize('family', _FAMILIES)
def test_all(family):
  _check(_FAMILIES[family])


@pytest.mark.parametrize('kind', [
    'tensor<?x8xf32, #stablehlo.bounds<8, ?>>', 'tensor<?x8xf32>',
    'tensor<4xf8E4M3FN>', '!stablehlo.token'
])
def test_kinds_of_values(kind):
  program = dialects.write(
      dialects.read(f'''module {{
        func.func @main(%a: {kind}, %b: tensor<f32>) -> (tensor<f32>, {kind}) {{
          return %b, %a : tensor<f32>, {kind}
        }}}}'''.encode()), dialects.current_version())
  text = dialects.text(dialects.read(_there_and_back(program)))
  assert text.count(kind) == 3
