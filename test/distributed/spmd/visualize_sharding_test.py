"""Drawings of shardings, judged by the official function and cell by cell.

The official function is read from the official wheel, so that what it draws
right is compared byte by byte with what the fork draws.
"""

import ast
from collections.abc import Callable
import contextlib
import io
import math
from pathlib import Path
import re
import types
import zipfile

import environments
import numpy as np
import pytest
import rich.console
import torch
import torch_xla
from torch_xla.distributed.spmd import debugging
import torch_xla.distributed.spmd as xs
from torch_xla.shardy.sharding.drawing import NoGridError
from torch_xla.shardy.sharding.hlo_sharding import (ShardingTextError,
                                                    UnsupportedShardingError)
from torch_xla.shardy.sharding.text import parse_sharding
from torch_xla.shardy.sharding.tile_assignment import (TileAssignmentError)

official = pytest.importorskip(
    'infra.wheel.official', reason='needs the official wheel to compare with')
from infra.wheel.build import running_python

ENVIRONMENT = environments.DEVICES
pytestmark = pytest.mark.usefixtures('spmd')

_ROOT = Path(__file__).resolve().parents[3]
_REPLICATE = ' last_tile_dim_replicate'
_DRAWN = re.compile('[│┃]')


@pytest.fixture(scope='module')
def official_visualize() -> Callable:
  """`visualize_sharding` of the official wheel."""
  wheel = official.official_wheel(running_python(),
                                  official.default_cache(_ROOT), print)
  name = 'torch_xla/distributed/spmd/debugging.py'
  with zipfile.ZipFile(wheel) as file:
    source = file.read(name)
  module = types.ModuleType('official_debugging')
  exec(compile(source, name, 'exec'), module.__dict__)
  assert 'drawing' not in module.__dict__
  return module.visualize_sharding


@pytest.fixture
def draw(capsys) -> Callable[..., str]:
  """What a function prints, and the table that it returns, printed alike."""

  def printed(visualize, text, **options):
    table = visualize(text, **options)
    output = capsys.readouterr().out
    again = io.StringIO()
    rich.console.Console(file=again, width=1000).print(table)
    return output + again.getvalue()

  return printed


def cells_in(output):
  """The device ids in each cell of the first table that was printed."""
  grid = []
  for line in output.splitlines()[1:]:
    if line.startswith('┌'):
      grid.append([''] * (line.count('┬') + 1))
    elif line.startswith('├'):
      grid.append([''] * (line.count('┼') + 1))
    elif line.startswith('└'):
      break
    elif _DRAWN.match(line):
      for i, part in enumerate(_DRAWN.split(line)[1:-1]):
        grid[-1][i] += f'{part} '
  cells = []
  for row in grid:
    cells.append([])
    for cell in row:
      label, ids = cell.split(None, 1)
      assert label == 'CPU'
      cells[-1].append(ast.literal_eval(ids.strip()))
  return cells


def printed_by(text, **options):
  """What `visualize_sharding` prints."""
  with contextlib.redirect_stdout(io.StringIO()) as output:
    debugging.visualize_sharding(text, **options)
  return output.getvalue()


def cells_of(text, **options):
  return cells_in(printed_by(text, **options))


def v1(dims, order=None, suffix=''):
  order = range(math.prod(dims)) if order is None else order
  return (f'{{devices=[{",".join(map(str, dims))}]'
          f'{",".join(map(str, order))}{suffix}}}')


# V1 texts that the official function draws right.
_REVERSED = list(range(7, -1, -1))
_V1_TEXTS = [
    '',
    '{replicated}',
    v1((2, 4)),
    v1((4, 2)),
    v1((8, 1)),
    v1((64, 8)),
    v1((2, 4), [0, 4, 1, 5, 2, 6, 3, 7]),
    v1((8, 1), _REVERSED),
    v1((2, 1, 4), suffix=_REPLICATE),
    v1((1, 4, 2), [0, 4, 1, 5, 2, 6, 3, 7], _REPLICATE),
    v1((1, 4, 2), [3, 7, 2, 6, 1, 5, 0, 4], _REPLICATE),
    v1((2, 2, 2), [0, 1, 4, 5, 2, 3, 6, 7], _REPLICATE),
    v1((2, 4, 1)),
    v1((2, 2, 1, 1, 2), suffix=_REPLICATE),
    # Not XLA's own: fewer devices than there are, ids from eight on, replicas
    # out of order, spaces, and text around the sharding.
    v1((2, 1)),
    v1((1, 1, 4), suffix=_REPLICATE),
    v1((2, 2), [8, 9, 10, 11]),
    v1((2, 1, 2), [1, 0, 3, 2], _REPLICATE),
    '{devices=[2, 2]0, 2, 1, 3}',
    'sharding={devices=[2,2]0,2,1,3}',
]


@pytest.mark.parametrize(
    'options', [{}, {
        'use_color': False
    }, {
        'scale': 2.,
        'min_width': 3
    }, {
        'max_width': 50
    }],
    ids=str)
@pytest.mark.parametrize('text', _V1_TEXTS)
def test_v1_is_drawn_as_ever(text, options, draw, official_visualize):
  drawn = draw(debugging.visualize_sharding, text, **options)
  assert drawn == draw(official_visualize, text, **options)
  assert '│' in drawn and f'Visualizing {text} (' in drawn


def after_first_line(text):
  return text.split('\n', 1)[1]


@pytest.mark.parametrize(
    'text, cells',
    [
        ('{devices=[2,2]<=[2,2]T(1,0)}', [[0, 2], [1, 3]]),
        ('{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}', [[[0, 2]],
                                                                    [[1, 3]]]),
        # One dimension is a row.
        ('{devices=[4]<=[4]}', [[0, 1, 2, 3]]),
        ('{devices=[2,4]<=[8] last_tile_dim_replicate}', [[[0, 1, 2, 3],
                                                           [4, 5, 6, 7]]]),
        ('{devices=[4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}',
         [[[0, 4], [1, 5], [2, 6], [3, 7]]]),
        # Devices that differ in further dimensions share a cell.
        ('{devices=[2,2,2]<=[8]}', [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]),
        ('{devices=[2,1,2,2]<=[8] last_tile_dim_replicate}', [[[0, 1, 2, 3]],
                                                              [[4, 5, 6, 7]]]),
        # Subgroups.
        ('{devices=[2,1,2]<=[4] last_tile_dims={manual}}', [[[0, 1]], [[2, 3]]]
        ),
        ('{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}',
         [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]),
        ('{devices=[2,2]<=[4] last_tile_dims={manual, replicated}}',
         [[[0, 1, 2, 3]]]),
        # All devices alike, and as many as the text has, not the runtime.
        ('{devices=[1,1,4]<=[4] last_tile_dim_replicate}', [[[0, 1, 2, 3]]]),
        ('{ replicated }', [[list(range(8))]]),
        ('{devices=[1,2]1,0 metadata={op_name="a"}}', [[1, 0]]),
        ('{maximal device=3}', [[3]]),
    ])
def test_cells(text, cells):
  assert cells_of(text) == cells


@pytest.mark.parametrize('text, columns', [
    ('{devices=[16]<=[16]}', 16),
    ('{devices=[1,128]<=[128]}', 128),
    ('{devices=[2,20,3]<=[120] last_tile_dim_replicate}', 20),
    ('{devices=[1,40,100]<=[4000] last_tile_dim_replicate}', 40),
])
def test_no_device_is_cut_off(text, columns):
  cells = cells_of(text)
  assert {len(row) for row in cells} == {columns}
  tiles = parse_sharding(text).to_v1().tiles.to_array()
  assert np.array(cells).reshape(-1).tolist() == tiles.reshape(-1).tolist()


def test_max_width_holds_while_ids_fit(draw, official_visualize):
  text = v1((1, 8))
  for width in (33, 34, 40, 49):
    drawn = draw(debugging.visualize_sharding, text, max_width=width)
    assert drawn == draw(official_visualize, text, max_width=width)
    table = drawn.split('└')[0].split('\n', 1)[1]
    assert re.findall(r'\d', table) == list('01234567')
    assert max(map(len, table.splitlines())) <= width
  for width in (32, 20, 1):
    table = draw(official_visualize, text, max_width=width).split('└')[0]
    assert re.findall(r'\d', table.split('\n', 1)[1]) != list('01234567')
    assert cells_of(text, max_width=width) == [list(range(8))]


def test_in_colour(draw, official_visualize, monkeypatch):
  # Colour has no lines between cells, so a little more fits in.
  monkeypatch.setenv('FORCE_COLOR', '1')
  monkeypatch.setenv('TERM', 'xterm-256color')
  monkeypatch.delenv('NO_COLOR', raising=False)
  for text in (v1((2, 4)), v1((1, 16)), '{devices=[2,4]<=[8]}'):
    drawn = draw(debugging.visualize_sharding, text)
    assert '│' not in drawn
    if '<=' not in text:
      assert drawn == draw(official_visualize, text)
  # No lines between the cells: 24 characters are just enough.
  drawn = draw(debugging.visualize_sharding, v1((1, 8)), max_width=24)
  assert drawn == draw(official_visualize, v1((1, 8)), max_width=24)
  drawn = draw(debugging.visualize_sharding, v1((1, 8)), max_width=23)
  assert drawn != draw(official_visualize, v1((1, 8)), max_width=23)
  table = re.sub(r'\x1b\[[\d;]*m', '',
                 after_first_line(printed_by(v1((1, 64)))))
  assert re.findall(r'\d+', table) == [str(i) for i in range(64)]


# Tensors.


@pytest.mark.parametrize('shape, spec, cells', [
    ((8,), (('x', 'y'),), [[0, 1, 2, 3, 4, 5, 6, 7]]),
    ((8,), ('x',), [[[0, 1, 2, 3], [4, 5, 6, 7]]]),
    ((), (), [[[0, 1, 2, 3, 4, 5, 6, 7]]]),
    ((8, 8, 8), ('x', None, 'y'), [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]),
    ((8, 8, 8, 8), (None, None, 'y', 'x'), [[[0, 4, 1, 5, 2, 6, 3, 7]]]),
])
def test_tensors_of_any_rank(shape, spec, cells, capsys):
  mesh = xs.Mesh(list(range(8)), (2, 4), ('x', 'y'))
  t = xs.mark_sharding(torch.zeros(shape).to('xla'), mesh, spec)
  debugging.visualize_tensor_sharding(t)
  assert cells_in(capsys.readouterr().out) == cells


def test_tensor_without_sharding(capsys):
  t = torch.zeros(8, 8).to('xla')
  assert torch_xla._XLAC._get_xla_sharding_spec(t) == ''
  debugging.visualize_tensor_sharding(t)
  assert cells_in(capsys.readouterr().out) == [[list(range(8))]]


@pytest.mark.parametrize('text, error, message', [
    ('garbage', ShardingTextError, "expected '{' at position 0"),
    ('{devices=[2,2]0,1,2}', TileAssignmentError, 'but 3 are listed'),
    ('{manual}', NoGridError, '{manual} does not say which devices'),
    ('{{replicated}, {devices=[2,1]<=[2]}}', NoGridError, 'shards 2 tensors'),
    ("{mesh['x'=2], [{'x'}]}", UnsupportedShardingError, 'named sharding'),
])
def test_bad_text(text, error, message):
  with pytest.raises(error, match=message) as raised:
    debugging.visualize_sharding(text)
  assert isinstance(raised.value, ValueError)
