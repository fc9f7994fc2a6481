"""What a vendor's plugin tells of the programs that it made, or does not tell.

Numbers are right or a program is refused, whatever it tells.
"""

from __future__ import annotations

from typing import Any

import pytest
from sections import error, Run, Seen, sharding_of, sync
import torch
import torch_xla.distributed.spmd as xs
import vendor

ENVIRONMENT = {}  # Beside the tests that need no child.
_TELLS, _TELLS_NOT = ('sdy', 'hlo'), ('echo', 'none', 'absent', 'damaged',
                                      'silent')
_NOT_CHECKED = ('layouts are not checked: the plugin does not report them, and '
                'is assumed to keep the shardings that it is given')
_UNREADABLE = ('layouts are not checked: what the plugin tells of them cannot '
               'be read (jaxlib ')
pytestmark = pytest.mark.slow


def results(run: Run) -> Seen:
  """The results of one program: a free one, a marked one, a reduced one."""
  a = torch.randn(8, 8)
  x = a.to('xla')
  run.mark(x, ('x', 'y'), (0, 0))
  sync()
  free, marked, reduced = x * 2, x + 1, x.sum(0)
  run.mark(marked, ('y', None), (0, None))
  sync()
  placed = [sharding_of(t) for t in (free, marked, reduced)]
  again = free @ marked + reduced  # Of what they are laid out by.
  sync()
  errors = [
      error(free, a * 2),
      error(marked, a + 1),
      error(reduced, a.sum(0)),
      error(again, (a * 2) @ (a + 1) + a.sum(0))
  ]
  return Seen(None, more=(placed, max(errors)))


def open_result(run: Run) -> Seen:
  """Shardy may split what is open further."""
  x = run.put((8, 8), ('x', None), (0, 1))
  y = run.put((8, 8), (None, 'y'), (None, 0))
  expected = x.cpu() * y.cpu()
  z = x * y
  run.mark(z, ('x', None), (0, 1))
  sync()
  placed = sharding_of(z)
  z.add_(1)
  return Seen(None, more=(placed, error(z, expected + 1)))


def reads(run: Run) -> Seen:
  """Programs of torch_xla's own: items, copies, other shardings."""
  a = torch.randn(8, 8)
  x = a.to('xla')
  run.mark(x, ('x', 'y'), (0, 1))
  errors = [abs(x.sum().item() - a.sum().item()), error(x, a)]
  xs.clear_sharding(x)
  run.mark(x, (None, 'x'), (None, 3))
  errors += [error(x, a), error(x[2:5] * 2, a[2:5] * 2)]
  y = x + 5
  sync()
  errors += [error(y, a + 5), abs(y.max().item() - a.max().item() - 5)]
  return Seen(None, more=max(errors))


def uneven(run: Run) -> Seen:
  """A parameter that does not divide evenly, and its update in place."""
  a = torch.randn(5, 8)
  x = a.to('xla')
  run.mark(x, ('y', None), (0, None))
  sync()
  y = x * 3
  x.add_(1)
  sync()
  return Seen(None, more=max(error(y, a * 3), error(x, a + 1)))


def refused(run: Run) -> Seen:
  x = run.put((8, 8), ('x', 'y'), (0, 0))
  y = x * 2
  try:
    sync()
    return Seen(None)
  except ValueError as e:
    return Seen(None, more=str(e))
  finally:
    del y


@pytest.fixture(scope='module', name='ended')
def ended_fixture(request: pytest.FixtureRequest) -> Any:
  return vendor.run_asked(request)


def _ways(*ways: str) -> list[Any]:
  """Two in the whole: one that tells, and one that does not."""
  return [
      pytest.param(
          way, marks=[pytest.mark.nightly] * (way not in ('sdy', 'none')))
      for way in ways
  ]


@pytest.mark.parametrize('section', [results])
@pytest.mark.parametrize('way', _ways(*_TELLS, *_TELLS_NOT))
def test_placements_of_results(way, section, ended):
  one = ended[way, section]
  placed, off = one.seen.more
  assert off < 1e-4
  by_y = '{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'
  if way in _TELLS:
    assert placed == [
        '{devices=[2,4]0,1,2,3,4,5,6,7}', by_y,
        '{devices=[4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}'
    ]
    assert {p.note for p in one.programs} == {''} and not one.warned
    assert one.arrived == len(one.programs)
  else:
    # What nobody asked for is whole.
    assert placed == ['{replicated}', by_y, '{replicated}']
    note, = {p.note for p in one.programs}
    if way == 'damaged':
      assert note.startswith(_UNREADABLE)
    else:
      assert note == _NOT_CHECKED
    assert [w for w in one.warned if note in w] == [note]
  assert {p.form for p in one.programs} == {'sdy'}


@pytest.mark.parametrize('section', [results])
@pytest.mark.parametrize('way', _ways('none', 'absent', 'echo', 'damaged'))
def test_compiles(way, section, ended):
  """A plugin that has no such function is not asked twice for its results."""
  one = ended[way, section]
  count = len(one.programs)
  assert count >= 3
  assert one.arrived == (count + 1 if way in ('none', 'absent') else 2 * count)


@pytest.mark.parametrize('section', [open_result])
@pytest.mark.parametrize('way', _ways(*_TELLS, *_TELLS_NOT))
def test_result_with_an_open_dimension(way, section, ended):
  placed, off = ended[way, section].seen.more
  assert off < 1e-5
  assert (placed == '{devices=[2,4]0,1,2,3,4,5,6,7}') == (way in _TELLS)


@pytest.mark.parametrize('section', [reads])
@pytest.mark.parametrize('way', _ways(*_TELLS, *_TELLS_NOT))
def test_programs_of_torch_xlas_own(way, section, ended):
  assert ended[way, section].seen.more < 1e-4


@pytest.mark.parametrize('section', [uneven])
@pytest.mark.parametrize('way', _ways(*_TELLS, *_TELLS_NOT))
def test_uneven_parameter(way, section, ended):
  """It is told padded, so that it need not be asked for."""
  one = ended[way, section]
  assert one.seen.more < 1e-5
  assert {p.partitioner for p in one.programs} == {'shardy'}
  if way in _TELLS:
    assert all(p.note == '' for p in one.programs)


@pytest.mark.slow
@pytest.mark.parametrize('section', [refused])
@pytest.mark.parametrize('way', ['wrong'])
def test_a_layout_that_differs_is_refused(way, section, ended):
  one = ended[way, section]
  assert 'LayoutError' in one.seen.more
  assert ('f32[8,8], is stored as {devices=[2,4]<=[8]} and the plugin takes it '
          'as {replicated}') in one.seen.more
  assert one.programs[-1].error
