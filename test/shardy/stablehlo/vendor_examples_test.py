"""The examples as StableHLO on the vendor's plugin: as with HLO."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import io
import re
import sys

import pytest
from sections import Run, Seen
import torch_xla.runtime as xr
import vendor

ENVIRONMENT = {}  # Beside the tests that need no child.
pytestmark = pytest.mark.nightly  # The whole has vendor_sections_test.
# Of a line that is printed: what the machine decides.
_TIME = re.compile(r'[\d.]+ m?s\b|compiled in .*')


@dataclasses.dataclass(frozen=True)
class _Example:
  """An example, run as from a shell."""
  name: str
  steps: int

  def __str__(self) -> str:
    return self.name

  def __call__(self, on: Run) -> Seen:
    del on
    with pytest.MonkeyPatch.context() as patch:
      patch.syspath_prepend(str(vendor.ROOT / 'examples'))
      example = importlib.import_module(self.name)
      patch.setattr(sys, 'argv', [self.name, '--steps', str(self.steps)])
      # `Run` has done so, and it may be done once.
      patch.setattr(xr, 'use_spmd', lambda: None)
      printed = io.StringIO()
      with contextlib.redirect_stdout(printed):
        example.main()
    return Seen(None, more=printed.getvalue())


@functools.lru_cache(maxsize=None)
def _ended(way: str, example: _Example) -> vendor.Ended:
  """How an example ends in a process of its own: others see what it leaves."""
  return vendor.run(vendor.WAYS[way], example)[example]


def _numbers(printed: str) -> list[float]:
  """The losses and accuracies that an example prints."""
  return [
      float(number) for line in printed.splitlines()
      if line.lstrip().startswith(('step', 'loss'))
      for number in re.findall(r'\d+\.\d+', _TIME.sub('', line))
  ]


# The second prints collectives: it needs a plugin that tells them.
@pytest.mark.parametrize(
    'way, section', [
        *((way, _Example('train_sharded', 21))
          for way in ('sdy', 'attributes')),
        *((way, _Example('priority', 5)) for way in ('hlo', 'XLA, converted')),
    ],
    ids=str)
def test_as_with_hlo(way, section):
  one, hlo = _ended(way, section), _ended('HLO', section)
  expected = _numbers(hlo.seen.more)
  assert len(expected) >= 4
  assert _numbers(one.seen.more) == pytest.approx(expected, abs=2e-3)
  assert [(p.partitioner, p.asked) for p in one.programs if p.asked
         ] == [(p.partitioner, p.asked) for p in hlo.programs if p.asked]
  assert {(p.form, p.note) for p in one.programs} == {(vendor.form_of(way), '')}
  if section.name == 'priority':
    # Of the transformer, too, `_XLAC`'s StableHLO is another program than its
    # HLO: constants are folded and reshapes merged, and Shardy, which goes from
    # one operation to the next, comes to gather more.
    for a, b in zip(_moved(one), _moved(hlo), strict=True):
      assert a == pytest.approx(b, rel=1e-3)


def _moved(ended: vendor.Ended) -> list[dict[str, int]]:
  """Bytes by kind of collective of each annotated program."""
  return [{
      kind: nbytes for kind, (_, nbytes) in p.moved.items()
  } for p in ended.programs if p.asked]
