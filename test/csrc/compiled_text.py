"""The text that a StableHLO vendor's plugin tells of a compiled program.

It has the shapes and the shardings, and nothing of what is computed. The
stand-in, stablehlo_plugin.c, is in a process of Python's, and calls `write`.
"""

from __future__ import annotations

from collections.abc import Iterable
import ctypes

from torch_xla.shardy.hlo import array_shape, messages, op_sharding
from torch_xla.shardy.hlo.array_shape import ArrayShape
from torch_xla.shardy.hlo.protos import HloModuleProto

_TYPES = {'pred': 'i1', 'c64': 'complex<f32>', 'c128': 'complex<f64>'}


def _tensor(array: ArrayShape) -> str:
  name = array.dtype
  if name not in _TYPES and name[0] in 'su':
    name = name.replace('u', 'ui').replace('s', 'i')
  if name.startswith('f8'):
    name = 'f' + name[1:].upper()
  dims = ''.join(f'{d}x' for d in array.dims)
  return f'tensor<{dims}{_TYPES.get(name, name)}>'


def _tensors(shapes: Iterable[bytes]) -> list[str]:
  return [_tensor(a) for shape in shapes for a in array_shape.arrays_of(shape)]


def text(module: HloModuleProto, telling: str) -> str:
  """The text, with 'wrong', 'silent' or right shardings.

  Frameworks convert it to HLO: one call that gives all results, and that every
  reader knows how to convert.
  """
  shape = module.host_program_shape
  parameters, results = _tensors(shape.parameters), _tensors([shape.result])
  shardings = [
      str(sharding)
      for data in module.spmd_parameters_shardings
      for sharding in op_sharding.elements(data)
  ]
  if len(shardings) != len(parameters) or telling == 'silent':
    shardings = []
  if telling == 'wrong':
    split = next(i for i, s in enumerate(shardings) if s != '{replicated}')
    shardings[split] = '{replicated}'
  notes = [f' {{mhlo.sharding = "{sharding}"}}' for sharding in shardings]
  output = ''
  if module.HasField('spmd_output_sharding') and telling != 'silent':
    sharding = op_sharding.from_bytes(module.spmd_output_sharding)
    output = f' attributes {{mhlo.spmd_output_sharding = "{sharding}"}}'
  names = [f'%arg{i}' for i in range(len(parameters))]
  arguments = ', '.join(
      f'{name}: {tensor}{note}'
      for name, tensor, note in zip(names, parameters, notes or [''] *
                                    len(names)))
  called = f'%0:{len(results)} = ' if results else ''
  told = ', '.join(results)
  returned = ', '.join(f'%0#{i}' for i in range(len(results)))
  return f'''module @"{module.name}"{output} {{
  func.func @main({arguments}) -> ({told}) {{
    {called}stablehlo.custom_call @vendor.compiled({', '.join(names)}) : ({
        ', '.join(parameters)}) -> ({told})
    return {returned}{' : ' if results else ''}{told}
  }}
}}
'''


def write(address: int, size: int, telling: str, target: int) -> None:
  """Puts a copy of the text, for C to free, where `target` points to.

  Args:
    address, size: of an HloModuleProtoWithConfig.
  """
  program = ctypes.string_at(address, size)
  _, module = messages.parse_compiled(program, 'hlo_with_config')
  duplicate = ctypes.CDLL(None).strdup
  duplicate.restype = ctypes.c_void_p
  copy = duplicate(text(module, telling).encode())
  ctypes.c_void_p.from_address(target).value = copy
