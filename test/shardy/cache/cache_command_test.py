"""`torch-xla-shardy cache`, on a directory that a process left."""

from __future__ import annotations

import json
from pathlib import Path

from caches import DATA, fill
import pytest
from torch_xla_shardy.main import main


@pytest.fixture(name='root')
def root_fixture(tmp_path: Path) -> Path:
  root = tmp_path / 'root'
  fill(root)
  return root


def told(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
  status = main(['cache', *map(str, words)])
  return status, capsys.readouterr().out


def test_list(root: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
  status, said = told(capsys, 'list', root, '--json', tmp_path / 'told.json')
  one, = json.loads((tmp_path / 'told.json').read_text())
  assert (status, one['entries'], one['findings']) == (0, 1, [])
  assert one['bytes'] > len(DATA)
  assert said == f'{root}/rules: 1 entries, {one["bytes"]:,} bytes\n'


def test_verify(root: Path, capsys: pytest.CaptureFixture[str]):
  assert told(capsys, 'verify', '--quiet', root) == (0, '')
  entry, = (root / 'rules').glob('*.entry')
  content = entry.read_bytes()
  entry.write_bytes(content[:-1] + b'?')
  for _ in range(2):  # It changes nothing.
    status, said = told(capsys, 'verify', '--quiet', root)
    assert status == 1
    assert said == (f'error: {root}/rules: key: {len(content)} bytes '
                    'that are not what was written\n')
  assert entry.exists()


def test_clear(root: Path, capsys: pytest.CaptureFixture[str]):
  status, said = told(capsys, 'clear', root)
  assert (status, said) == (0, f'{root}/rules: 0 entries, 0 bytes\n')
  assert not [*(root / 'rules').glob('*.entry')]


def test_no_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
  assert told(capsys, 'list',
              tmp_path)[1].endswith('there is no compilation cache in it\n')
  with pytest.raises(SystemExit) as ended:
    main(['cache', 'list', str(tmp_path / 'nowhere')])
  assert ended.value.code == 2
