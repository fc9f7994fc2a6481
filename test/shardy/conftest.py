"""XLA itself as the judge of what the core prints; wrappers at the door."""

import contextlib
import re
from typing import List, Sequence

import numpy as np
import pytest


class Xla:
  """The HLO sharding and module parsers and printers of jaxlib."""

  def __init__(self, client):
    self._client = client

  def parse(self, text: str):
    return self._client.HloSharding.from_string(text)

  def text(self, text: str) -> str:
    """What XLA prints after reading `text`."""
    return str(self.parse(text))

  def through_proto(self, text: str) -> str:
    """What XLA prints after reading `text` from an `OpSharding` proto."""
    proto = self.parse(text).to_proto()
    return str(self._client.HloSharding.from_proto(proto))

  def devices(self, text: str) -> np.ndarray:
    sharding = self.parse(text)
    return np.array(sharding.tile_assignment_devices()).reshape(
        sharding.tile_assignment_dimensions())

  def through_module(self, texts: Sequence[str]) -> List[str]:
    """What XLA prints of `texts` on the parameters of a parsed HLO module."""
    from jaxlib import _hlo
    parameters = '\n'.join(
        f'  {"ROOT " if i == 0 else ""}p{i} = f32[64,64]{{1,0}} parameter({i}),'
        f' sharding={text}' for i, text in enumerate(texts))
    module = _hlo.hlo_module_from_text(
        f'HloModule m\n\nENTRY e {{\n{parameters}\n}}\n')
    printed = re.findall(r'parameter\((\d+)\), sharding=(\{.*\})',
                         module.to_string())
    return [text for _, text in sorted(printed, key=lambda p: int(p[0]))]


@pytest.fixture(scope='session')
def xla() -> Xla:
  return Xla(
      pytest.importorskip(
          'jaxlib.xla_client',
          reason='needs jaxlib: its HLO parser and printer are the judge'))


@pytest.fixture(name='wrap')
def wrap_fixture():
  """`door.wrap`, for as long as the test runs or until the undo."""
  from torch_xla.shardy import door
  with contextlib.ExitStack() as undone:
    yield lambda wrapper: undone.callback(door.wrap(wrapper))
