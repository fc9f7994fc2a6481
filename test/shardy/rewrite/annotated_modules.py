"""Small modules with bindings and tags in them, from HLO text."""

from torch_xla.shardy.annotate import call_target
from torch_xla.shardy.annotate.annotation import Annotation
from torch_xla.shardy.hlo import messages, protos


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
