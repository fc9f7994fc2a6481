"""Programs that come out of the cache: across processes, modes and damage."""

from __future__ import annotations

import os
from typing import Any

import environments
import numpy as np
import processes
import pytest
import torch
import torch_xla
from torch_xla.shardy import cache
from torch_xla.shardy.cache import rules
from torch_xla.shardy.errors import TooLateError
from torch_xla.shardy.hlo import messages
from torch_xla.shardy.hlo.protos import HloModuleProto

ENVIRONMENT = {}  # Beside the tests that need no child.
_CPU = environments.DEVICES
_V2 = {**_CPU, 'XLA_SHARDING_V2': '1'}
_SHARDY = {**_CPU, 'XLA_USE_SHARDY': '1'}


def _use_and_compile(root: str, readonly: bool) -> dict[str, Any]:
  """What a process has of the cache that compiles lazily and by dynamo."""
  import torch_xla.distributed.spmd as xs
  import torch_xla.runtime as xr
  used = cache.use(root, readonly=readonly)
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (4, 2), ('x', 'y'))
  t = torch.arange(64.).reshape(8, 8)
  x = t.to('xla')
  xs.mark_sharding(x, mesh, ('x', 'y'))
  y = (x @ x).sin() + 1
  torch_xla.sync(wait=True)
  torch.testing.assert_close(y.cpu(), (t @ t).sin() + 1)
  f = torch.compile(torch.nn.Linear(8, 8).to('xla').eval(), backend='openxla')
  with torch.no_grad():
    f(x).cpu()
  report = used.report()
  return {
      'loaded': report.loaded,
      'missing': report.missing,
      'stored': report.stored,
      'damaged': report.damaged,
      'not_stored': report.not_stored,
      'path': used.path,
      'y': y.cpu().double().sum().item(),
  }


def _run(root, readonly: bool = False, **variables: str) -> dict[str, Any]:
  return processes.call(_use_and_compile, str(root), readonly,
                        **variables).value


@pytest.fixture(scope='module')
def cold(tmp_path_factory):
  """What the first V2 process says; it leaves `path` filled."""
  root = tmp_path_factory.mktemp('cache')
  said = _run(root, **_V2)
  assert said['loaded'] == 0
  assert said['stored'] == said['missing'] >= 3
  assert not said['not_stored']
  return {**said, 'root': root}


def test_the_next_process_compiles_nothing(cold):
  warm = _run(cold['root'], True, **_V2)
  assert warm['missing'] == warm['stored'] == 0
  assert warm['loaded'] == cold['missing']
  assert warm['y'] == cold['y']
  assert warm['path'] == cold['path']


def test_another_mode_finds_nothing(cold):
  shardy = _run(cold['root'], True, **_SHARDY)
  assert shardy['loaded'] == 0 and shardy['missing'] > 0
  assert shardy['path'] != cold['path']


@pytest.mark.slow
def test_shardy_mode_is_cached_too(tmp_path):
  first = _run(tmp_path, **_SHARDY)
  second = _run(tmp_path, **_SHARDY)
  assert first['loaded'] == 0 and first['stored'] > 0
  assert second['missing'] == 0 and second['loaded'] == first['missing']
  assert second['y'] == first['y']


@pytest.mark.slow
def test_damaged_entries_are_compiled_again(cold):
  """Cut off, overwritten, and whole but refused by the backend."""
  names = sorted(n for n in os.listdir(cold['path']) if n.endswith('.entry'))
  paths = [os.path.join(cold['path'], name) for name in names]
  os.truncate(paths[0], os.path.getsize(paths[0]) // 2)
  with open(paths[1], 'r+b') as f:
    f.write(os.urandom(os.path.getsize(paths[1])))
  writer = cache.open_directory(
      str(cold['root']), os.path.basename(cold['path']), False, 10**9)
  writer.put(names[2].rpartition('.')[0], b'no executable')
  writer.close()

  mended = _run(cold['root'], **_V2)
  assert mended['y'] == cold['y']
  assert mended['missing'] == mended['stored'] == 3
  assert mended['loaded'] == cold['missing'] - 3
  damaged = '\n'.join(sorted(mended['damaged']))
  assert [line.split(':')[0] for line in damaged.splitlines()
         ] == [name.rpartition('.')[0] for name in names[:3]]
  assert 'the backend refused it' in damaged.splitlines()[2]
  assert _run(cold['root'], True, **_V2)['missing'] == 0


@pytest.mark.environment(**_V2)
def test_what_an_entry_is_for(monkeypatch):
  """Each part of what a program depends on counts, and where a part ends."""
  torch_xla.device()
  parts = [('rules', 'hlo', b'program', b'options'),
           ('rule', 'hlo', b'program', b'options'),
           ('rules', 'mlir', b'program', b'options'),
           ('ruleshlo', '', b'program', b'options'),
           ('rules', 'hlo', b'programs', b'options'),
           ('rules', 'hlo', b'program', b'option'),
           ('rules', 'hlo', b'', b'optionsprogram')]
  keys = [rules.program_key(*part) for part in parts]
  monkeypatch.setenv('XLA_FLAGS', '--xla_cpu_enable_fast_math=true')
  keys.append(rules.program_key(*parts[0]))
  assert len(set(keys)) == len(keys)


@pytest.mark.environment(**_V2)
def test_the_order_of_a_map_counts_for_nothing():
  """Each process writes the two attributes of an einsum in its own order."""
  torch_xla.device()

  def key(*names: str) -> str:
    module = messages.make(HloModuleProto)
    instruction = module.computations.add().instructions.add()
    for name in names:
      instruction.frontend_attributes.map.add(key=name, value='false')
    return rules.program_key('rules', 'hlo', module.SerializeToString(), b'')

  assert key('grad_x', 'grad_y') == key('grad_y', 'grad_x') != key('grad_x')


def _use():
  return cache.use('/nonexistent/cache', readonly=True)


@pytest.mark.environment(**_CPU)
def test_mode_off():
  with pytest.raises(
      cache.CacheError,
      match='with the mode off programs do not pass the door'):
    _use()


@pytest.mark.environment(**_V2)
def test_too_late():
  torch_xla.device()
  with pytest.raises(TooLateError):
    _use()


@pytest.mark.environment(**_V2)
def test_one_cache_per_process():
  _use()
  with pytest.raises(
      cache.CacheError, match='uses the compilation cache /nonexistent/cache/'):
    _use()
