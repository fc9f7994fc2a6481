"""Small modules with bindings and tags in them, from HLO text."""

import re

from torch_xla.shardy.annotate import call_target
from torch_xla.shardy.annotate.annotation import Annotation
from torch_xla.shardy.compile.plan import NO_TILES
from torch_xla.shardy.hlo import messages, protos
from torch_xla.shardy.rewrite import extract, pipeline


def call(target: str) -> str:
  quoted = target.replace('\\', '\\\\').replace('"', '\\"')
  return f'custom_call_target="{quoted}"'


def bind(*said: Annotation) -> str:
  return call(call_target.binding_target(said))


def tag(said: Annotation) -> str:
  return call(call_target.tag_target(said))


def module_of(entry: str, others: str = '', header: str = ''):
  from jaxlib import _hlo as hlo  # Those who need it skip without it.
  text = f'HloModule m{header}\n{others}\nENTRY e {{\n{entry}\n}}\n'
  return messages.parse(
      protos.HloModuleProto,
      hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


def lower(module, tiles=NO_TILES) -> pipeline.Program:
  """Lowers a module to Shardy's terms, over eight devices, in place."""
  program = pipeline.Program(module, pipeline.Stage.V2,
                             extract.extract_annotations(module))
  return pipeline.lower(program, pipeline.Settings(8), tiles=tiles)


def printed(module) -> str:
  """The text that XLA prints, with little of what is not looked at here."""
  from jaxlib import _hlo as hlo
  text = hlo.HloModule.from_serialized_hlo_module_proto(
      module.SerializeToString()).to_string()
  header, _, body = text.partition('\n')
  meshes = header.partition('frontend_attributes=')[2]
  body = body.replace('%', '').replace('\\"', "'").replace(
      'frontend_attributes',
      'attributes').replace(' custom_call_target="',
                            ' "').replace('f32[8,8]{1,0}', 'F').strip()
  # Instructions that were added, numbered as they come.
  added = list(dict.fromkeys(re.findall(r'shardy\.\d+', body)))
  body = re.sub(r'shardy\.\d+', lambda m: f'added{added.index(m.group())}',
                body)
  return f'{meshes}\n{body}'
