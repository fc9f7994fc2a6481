"""The audit's page, in a real browser, and the grids on it."""

from pathlib import Path
import subprocess

import browsing
import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.audit import examine
from torch_xla.distributed.spmd.audit.grid import grid_of
from torch_xla.distributed.spmd.policy import (Boundary, REPLICATED, Rule,
                                               ShardingPolicy)
import torch_xla.runtime as xr

ENVIRONMENT = environments.SHARDY
# A name that is markup, and so long that it could burst a page.
NASTY = '<script>document["title"]="run"</script>&' + 'x' * 120
# What each grid is: rows, tiles, colours, devices.
GRIDS = '''say('grids', [...document.querySelectorAll('.grid')].map(g => {
  const tiles = [...g.children], box = t => t.getBoundingClientRect()
  const rows = new Set(tiles.map(t => Math.round(box(t).top)))
  const colours = new Set(tiles.map(t => getComputedStyle(t).backgroundColor))
  return [rows.size, tiles.length, colours.size,
          tiles.map(t => t.textContent).join('/')].join(':')
}).join(';'))'''


@pytest.fixture(scope='module')
def browser():
  return browsing.find()


@pytest.fixture(scope='module')
def report():
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))
  model = model.to('xla')
  policy = ShardingPolicy(
      (Rule('0.weight',
            ('model', 'data')), Rule('1.weight', (None, ('data', 'model')))),
      REPLICATED, (Boundary('0', ('data', None)),))
  policy.apply(model, mesh)
  model(torch.randn(4, 8).to('xla')).sum().backward()
  torch_xla.sync(wait=True)
  model.register_buffer(NASTY, torch.ones(3).to('xla'))
  return examine(model, policy, tolerance=10)


@pytest.fixture(scope='module')
def page(report, tmp_path_factory) -> Path:
  path = tmp_path_factory.mktemp('page') / 'audit.html'
  path.write_text(report.to_html())
  return path


@pytest.fixture(scope='module')
def shown(browser, page) -> subprocess.CompletedProcess:
  return browsing.dump(browser, page)


@pytest.fixture(scope='module')
def on_a_desk(browser, page) -> dict:
  return browsing.probed(browser, page, '--window-size=1280,900', more=GRIDS)


@pytest.mark.slow
def test_the_page_holds_the_whole_audit(shown, report):
  assert 'CONSOLE' not in shown.stderr
  text = browsing.text_of(shown.stdout)
  for row in report.tensors:
    assert row.name in text
  for difference in report.differences:
    assert difference.text in text
  assert report.programs[0].name in text
  assert f'{report.totals.replicated_nbytes:,}' in text
  assert f"{report.programs[0].collectives[0].count} " + (
      report.programs[0].collectives[0].kind) in text


@pytest.mark.slow
def test_the_page_needs_nothing_and_runs_nothing(shown, page):
  assert browsing.needs_nothing(page.read_text())
  assert '<title>Sharding audit</title>' in shown.stdout


@pytest.mark.slow
def test_grids_are_drawn_tile_by_tile(on_a_desk):
  assert on_a_desk['links'] == 'true'
  # rows:tiles:colours:devices
  assert on_a_desk['grids'].split(';')[:3] == [
      '4:8:8:0/4/1/5/2/6/3/7',
      '1:1:1:0-7',
      '1:8:8:0/1/2/3/4/5/6/7',
  ]


@pytest.mark.slow
def test_the_page_fits_a_desk(on_a_desk):
  assert 1200 < int(on_a_desk['client']) <= 1280
  assert int(on_a_desk['scroll']) == int(on_a_desk['client'])


@pytest.mark.parametrize('sharding, tiles, rows', [
    ('{replicated}', (), [[(0, 1, 2, 3)]]),
    ('{maximal device=2}', (), [[(2,)]]),
    ('{devices=[4]<=[4]}', (4,), [[(0,), (1,), (2,), (3,)]]),
    ('{devices=[2,1,2]<=[4] last_tile_dim_replicate}',
     (2, 1), [[(0, 1)], [(2, 3)]]),
    ('{devices=[2,2]<=[2,2]T(1,0)}', (2, 2), [[(0,), (2,)], [(1,), (3,)]]),
    ('{devices=[1,2,2]3,2,1,0}', (1, 2, 2), [[(3,), (2,), (1,), (0,)]]),
])
def test_which_devices_hold_which_tile(sharding, tiles, rows):
  grid = grid_of(sharding, range(4))
  assert grid.tiles == tiles
  assert [list(row) for row in grid.rows] == rows


def test_what_cannot_be_drawn():
  assert grid_of('{manual}', range(4)) is None
  assert grid_of('{devices=[2048]<=[2048]}', range(2048)) is None
