"""Programs that come out of the cache: across processes, modes and damage."""

import json
import os
from typing import Any, Dict

from processes import error_of, output_of
import pytest

_SCRIPT = '''
import json, sys
import numpy as np, torch, torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import cache

used = cache.use({root!r}, share=cache.Sharing({share!r}))
xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (2, 2), ('x', 'y'))
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
print(json.dumps(dict(
    loaded=report.loaded, missing=report.missing, stored=report.stored,
    damaged=report.damaged, not_stored=report.not_stored, path=used.path,
    y=y.cpu().double().sum().item())))
'''
_V2, _SHARDY = {'XLA_SHARDING_V2': '1'}, {'XLA_USE_SHARDY': '1'}


def _run(root, share: str = 'private', **variables: str) -> Dict[str, Any]:
  script = _SCRIPT.format(root=str(root), share=share)
  output = output_of(
      script, PJRT_DEVICE='CPU', CPU_NUM_DEVICES='4', **variables)
  return json.loads(output.splitlines()[-1])


@pytest.fixture(scope='module')
def cold(tmp_path_factory):
  """What the first V2 process says; it leaves `path` filled."""
  root = tmp_path_factory.mktemp('cache')
  said = _run(root, 'writer', **_V2)
  assert said['loaded'] == 0
  assert said['stored'] == said['missing'] >= 3
  assert not said['not_stored']
  return {**said, 'root': root}


def test_the_next_process_compiles_nothing(cold):
  warm = _run(cold['root'], 'reader', **_V2)
  assert warm['missing'] == warm['stored'] == 0
  assert warm['loaded'] == cold['missing']
  assert warm['y'] == cold['y']
  assert warm['path'] == cold['path']


def test_another_mode_or_compiler_flag_finds_nothing(cold):
  shardy = _run(cold['root'], 'reader', **_SHARDY)
  assert shardy['loaded'] == 0 and shardy['missing'] > 0
  assert shardy['path'] != cold['path']
  flag = '--xla_cpu_enable_fast_math=true'
  flags = _run(cold['root'], 'reader', XLA_FLAGS=flag, **_V2)
  assert flags['loaded'] == 0 and flags['missing'] > 0


def test_shardy_mode_is_cached_too(tmp_path):
  first = _run(tmp_path, **_SHARDY)
  second = _run(tmp_path, **_SHARDY)
  assert first['loaded'] == 0 and first['stored'] > 0
  assert second['missing'] == 0 and second['loaded'] == first['missing']
  assert second['y'] == first['y']


def test_damaged_entries_are_compiled_again(cold):
  """Cut off, overwritten, and whole but refused by the backend."""
  from torch_xla.shardy import cache
  names = sorted(n for n in os.listdir(cold['path']) if n.endswith('.entry'))
  paths = [os.path.join(cold['path'], name) for name in names]
  os.truncate(paths[0], os.path.getsize(paths[0]) // 2)
  with open(paths[1], 'r+b') as f:
    f.write(os.urandom(os.path.getsize(paths[1])))
  rules = os.path.basename(os.path.dirname(cold['path']))
  writer = cache.open_directory(
      str(cold['root']), rules, cache.Sharing.WRITER, 10**9)
  writer.store.put(names[2].rpartition('.')[0], b'no executable')
  writer.close()

  mended = _run(cold['root'], 'writer', **_V2)
  assert mended['y'] == cold['y']
  assert mended['missing'] == mended['stored'] == 3
  assert mended['loaded'] == cold['missing'] - 3
  damaged = '\n'.join(sorted(mended['damaged']))
  assert [line.split(':')[0] for line in damaged.splitlines()
         ] == [name.rpartition('.')[0] for name in names[:3]]
  assert 'the backend refused it' in damaged.splitlines()[2]
  assert _run(cold['root'], 'reader', **_V2)['missing'] == 0


_USE = 'cache.use("/nonexistent/cache", share=cache.Sharing.READER)\n'
_IMPORT = 'import torch_xla\nfrom torch_xla.shardy import cache\n'


def test_mode_off():
  error = error_of(_IMPORT + _USE, PJRT_DEVICE='CPU')
  assert 'with the mode off programs do not pass the door' in error


def test_too_late():
  error = error_of(
      _IMPORT + 'torch_xla.device()\n' + _USE, PJRT_DEVICE='CPU', **_V2)
  assert error.startswith('torch_xla.shardy.errors.TooLateError')


def test_one_cache_per_process():
  error = error_of(_IMPORT + _USE + _USE, PJRT_DEVICE='CPU', **_V2)
  assert 'uses the compilation cache /nonexistent/cache/' in error
