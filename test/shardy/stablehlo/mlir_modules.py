"""Small modules in MLIR with bindings and tags in them, and what they become.

In what is expected, as in what is given, `F` is `tensor<8x8xf32>`.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from torch_xla.shardy.annotate import call_target
from torch_xla.shardy.annotate.annotation import Annotation
from torch_xla.shardy.rewrite import extract, to_sdy
from torch_xla.shardy.sdy.constraints import SdyProgram
from torch_xla.shardy.stablehlo import conversion, dialects, forms
from torch_xla.shardy.stablehlo.forms import Form

F = 'tensor<8x8xf32>'


def quoted(text: str) -> str:
  """The text as a string in MLIR."""
  return '"' + text.replace('\\', '\\5C').replace('"', '\\22') + '"'


def call(target: str, *operands: str, result: str = F, also: str = '') -> str:
  """A custom call with operands of type F."""
  kinds = ', '.join(['F'] * len(operands))
  return (f'stablehlo.custom_call @{quoted(target)}({", ".join(operands)}) '
          f'{also} : ({kinds}) -> {result}')


def bind(*said: Annotation, of: tuple[str, ...]) -> str:
  """The binding of the values `of`, with these annotations."""
  return call(call_target.binding_target(said), *of, result='tensor<f32>')


def tag(said: Annotation, of: str) -> str:
  return call(call_target.tag_target(said), of)


def sharding_call(of: str, sharding: str) -> str:
  return call('Sharding', of, also=f'{{mhlo.sharding = "{sharding}"}}')


def read(text: str):
  """The module of a text with `F` for the usual type."""
  text = re.sub(r'\bF\b', F, text)
  return dialects.read(text.encode())


def main(arguments: str, results: str, body: str, others: str = ''):
  """The module of a function main, and of others."""
  return read(f'module @m {{\n{others}\nfunc.func @main({arguments}) -> '
              f'({results}) {{\n{body}\n}}\n}}')


def shown(module) -> str:
  """The module's text as it is to be compared, a line for each argument."""
  text = dialects.text(module).replace(F, 'F')
  lines = []
  for line in text.splitlines():
    if line.lstrip().startswith('func.func'):
      line = line.replace(', %arg',
                          ',\n      %arg').replace(') -> ', ')\n      -> ')
    lines.append(line)
  return '\n'.join(lines) + '\n'


def in_hlo(module):
  """The HloModuleProto message of a module, which is used up."""
  return conversion.to_hlo(module)


def in_form(program, form: Optional[Form] = Form.SDY):
  """The module of a lowered HloModuleProto message; without a form, in V2."""
  module = conversion.from_hlo(program)
  if form is not None:
    forms.write(module, form)
  assert module.operation.verify()
  return module


def lower(module,
          num_devices: int = 8,
          form: Form = Form.SDY) -> tuple[Any, SdyProgram]:
  """What becomes of a module, which is used up, and what it says."""
  program = in_hlo(module)
  told = to_sdy.lower_shardings(program, extract.extract_annotations(program),
                                num_devices)
  return in_form(program, form), told
