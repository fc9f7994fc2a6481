"""Parameters and results lie where torch_xla was promised that they do."""

from __future__ import annotations

import functools

from ..case import Case, expect, Needs
from ..context import Context
from ..torch_modules import torch_xla, xs
from ..torch_session import (annotated, check_equal, check_shards, DATA, MODEL,
                             numbers, recorded)

# Dimensions, if they are not to be even, and what they are split over.
_SPECS = {
    'even': (None, (DATA, MODEL)),
    'uneven_rows': ((13, 32), (MODEL, None)),
    'uneven_columns': ((16, 9), (None, (DATA, MODEL))),
    'whole': (None, (None, None)),
}


def _parameters(context: Context, part: str) -> str:
  """The compiled program takes parameters as they are stored."""
  dims, spec = _SPECS[part]
  session = context.torch()
  mesh = session.grid()
  host = (numbers(*dims) if dims else session.even_numbers()) % 16
  stored = annotated(session.to_device(host), mesh, spec)
  right = numbers(host.shape[1], 8) % 4
  other = session.to_device(right)
  with recorded() as programs:
    result = stored @ other
    torch_xla.sync(wait=True)
  check_equal(result.cpu(), host @ right, 'the product')
  parameters = []
  for program in programs:
    expect(not program.note, f'{program.name}: {program.note}')
    parameters += [
        t for t in program.tensors if t.parameter is not None and t.spec
    ]
  expect(
      bool(parameters) and all(t.local_shape is not None for t in parameters),
      'the plugin does not tell how it lays parameters out')
  return ', '.join(f'{t.placement}: {t.local_shape}' for t in parameters)


def _results(context: Context, part: str) -> str:
  """Checks that annotated results lie so, and others as torch_xla is told."""
  dims, spec = _SPECS[part]
  session = context.torch()
  mesh = session.grid()
  host = numbers(*dims) if dims else session.even_numbers()
  stored = annotated(session.to_device(host), mesh, spec)
  asked = stored + 1
  xs.mark_sharding(asked, mesh, spec)
  free = stored * 2
  torch_xla.sync(wait=True)
  check_shards(asked, host + 1, mesh, spec, 'annotated')
  check_equal(free.cpu(), host * 2, 'not annotated')
  again = free + asked
  torch_xla.sync(wait=True)
  check_equal(again.cpu(), host * 3 + 1, 'used again')
  return f'{spec}'


_case = functools.partial(Case, parts=tuple(_SPECS), devices=4)
CASES: tuple[Case, ...] = (
    _case(
        'layouts.parameters', 'programs read weights in another layout than '
        'they are stored in, or Shardy has to be given up',
        _parameters,
        needs=Needs.MODES),
    _case(
        'layouts.results', 'the next program reads results in another '
        'layout than they have',
        _results,
        needs=Needs.TORCH_XLA),
)
