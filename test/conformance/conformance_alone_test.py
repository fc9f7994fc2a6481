"""The wheel by itself: in an environment with what it requires, and no torch."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
import subprocess
import sys
import venv
import zipfile

from processes import clean_environment
import pytest
from torch_xla.shardy.hlo import messages, protos
from torch_xla_conformance.shared.hlo import messages as copied
from torch_xla_conformance.shared.hlo import protos as copied_protos
import xla_plugins.xla_cpu_pjrt

_ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(_ROOT))

# pylint: disable=wrong-import-position
from infra.wheel.pure_wheel import build_pure_wheel
from infra.wheel.tools import CONFORMANCE
# pylint: enable=wrong-import-position

_LIBRARY = str(
    Path(xla_plugins.xla_cpu_pjrt.__file__).parent / 'xla_cpu_pjrt.so')
_SHARED = 'torch_xla_conformance.shared.'
# Those that begin a process, and those that are torch's.
_NOT_ALONE = ('__main__.py', 'server.py', 'device_plugin.py')


@pytest.fixture(scope='module', name='site')
def site_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
  """The packages of an environment: the wheel's, and what it requires."""
  folder = tmp_path_factory.mktemp('alone')
  environment = folder / 'environment'
  venv.create(environment)
  [site] = environment.glob('lib/python*/site-packages')
  with zipfile.ZipFile(build_pure_wheel(_ROOT, folder, CONFORMANCE)) as wheel:
    wheel.extractall(site)
  for name in ('numpy', 'numpy.libs', 'google'):
    spec = importlib.util.find_spec(name.removesuffix('.libs'))
    assert spec and spec.submodule_search_locations
    installed = Path(list(spec.submodule_search_locations)[0]).with_name(name)
    if installed.exists():
      (site / name).symlink_to(installed)
  return site


def run(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
  """Runs the environment's Python."""
  return subprocess.run([site.parents[2] / 'bin/python', *map(str, arguments)],
                        cwd=site.parent,
                        env=clean_environment(PYTHONPATH=''),
                        capture_output=True,
                        text=True,
                        timeout=240,
                        check=False)


def command(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
  return run(site, '-m', 'torch_xla_conformance', *arguments)


def test_cases_are_listed_without_torch(site: Path) -> None:
  done = command(site, '--list', '--only', 'start.twice', 'training.specs',
                 'operations.unary.alone/exp')
  assert done.returncode == 0, done.stderr
  assert [line for line in done.stdout.splitlines() if line[0] != ' '] == [
      'start.twice (2 parts)', 'operations.all', 'training.specs (2 parts)'
  ]


def test_it_has_copies_of_just_what_it_uses(site: Path) -> None:
  """No module but those of torch's own needs torch to be imported."""
  package = site / 'torch_xla_conformance'
  modules = [
      '.'.join(path.relative_to(site).with_suffix('').parts)
      for path in package.rglob('*.py')
      if path.name not in _NOT_ALONE and 'shared' not in path.parts and
      'operations' not in (path.stem, path.parent.name)
  ]
  done = run(
      site, '-c', f'''
import importlib, sys
for name in {modules!r}:
  importlib.import_module(name.removesuffix('.__init__'))
print(*sorted(n for n, m in sys.modules.items()
              if n.startswith({_SHARED!r}) and m.__file__))
''')
  assert done.returncode == 0, done.stderr
  assert done.stdout.split() == sorted(
      _SHARED + '.'.join(Path(name).with_suffix('').parts[2:])
      for name in CONFORMANCE.sources
      if name.endswith('.py'))


@pytest.mark.slow
def test_cases_of_the_table_are_judged(site: Path) -> None:
  told = site.parent / 'told.json'
  done = command(site, '--plugin', _LIBRARY, '--options', 'cpu_device_count=4',
                 '--only', 'start.*', 'donation.*', 'shardings.assignment',
                 'priorities.flip/sum', 'operations.unary.alone', '--json',
                 told)
  assert done.returncode == 0, done.stderr
  assert done.stdout.splitlines()[-1] == (
      'conforms, as far as tried (25 passed, 3 skipped)')
  report = json.loads(told.read_text())
  assert report['capabilities']['artifacts'] == (
      'not measured: jaxlib is not installed')
  skipped = {
      r['case']: r['text'] for r in report['results'] if r['status'] == 'skipped'
  }
  assert [*skipped] == ['donation.steps', 'operations.all', 'priorities.flip']
  assert all('pip install torch_xla' in text for text in skipped.values())


@pytest.mark.slow
def test_a_registered_device_is_torch_xlas(site: Path) -> None:
  done = command(site, '--device', 'ACME')
  assert done.returncode == 2
  assert '--device ACME: it needs torch_xla: pip install' in done.stderr
  assert 'give --plugin FILE' in done.stderr


def test_another_torch_xla_has_no_modes(site: Path, tmp_path: Path) -> None:
  for package in ('torch', 'torch_xla'):
    (tmp_path / package).mkdir()
    (tmp_path / package / '__init__.py').write_text('1 / 0\n')
  done = run(
      site, '-c', f'''
import sys
sys.path.insert(0, {str(tmp_path)!r})
from torch_xla_conformance.case import Needs
from torch_xla_conformance.torch_modules import missing
print([missing(needs) for needs in Needs])
''')
  assert done.returncode == 0, done.stderr
  assert done.stdout == (
      "['', '', 'it needs a torch_xla with modes Shardy and V2: pip install the "
      "wheel torch_xla-*+shardy.*.whl of the release that this suite is of']\n")


def test_both_copies_of_messages_live_in_one_process() -> None:
  ours = messages.make(protos.HloModuleProto, name='a')
  theirs = copied.make(copied_protos.HloModuleProto, name='b')
  assert type(ours) is not type(theirs)
  data = theirs.SerializeToString()
  assert messages.parse(protos.HloModuleProto, data).name == 'b'
  assert copied.parse(copied_protos.HloModuleProto,
                      ours.SerializeToString()).name == 'a'
