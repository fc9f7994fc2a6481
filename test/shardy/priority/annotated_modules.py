"""Small modules with bindings and marks in them, from HLO text."""

from torch_xla.shardy import annotation, proto
from torch_xla.shardy.annotation import Annotation


def call(target: str) -> str:
  quoted = target.replace('\\', '\\\\').replace('"', '\\"')
  return f'custom_call_target="{quoted}"'


def bind(*said: Annotation) -> str:
  return call(annotation.binding_target(said))


def mark(said: Annotation) -> str:
  return call(annotation.mark_target(said))


def module_of(entry: str, others: str = '', header: str = ''):
  from jaxlib import _hlo as hlo  # Those who need it skip without it.
  text = f'HloModule m{header}\n{others}\nENTRY e {{\n{entry}\n}}\n'
  return proto.parse(
      'HloModuleProto',
      hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
