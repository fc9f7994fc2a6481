"""The example vendor: its wheel is built, verified, installed and trained with.

The environment is empty but for what torch_xla needs anyway: a link to each
package of the one that runs the suite stands in for downloading torch again,
and torch_xla and all that is its own are left out.
"""

import json
import os
from pathlib import Path
import re
import shutil
import sys
import tomllib

from infra_project import output_of, ROOT
import pytest
import yaml

from infra.wheel.build import running_python
from infra.wheel.profile import load_profile
from infra.wheel.pure_wheel import build_pure_wheel
from infra.wheel.tools import CONFORMANCE

EXAMPLE = ROOT / 'examples' / 'vendor'
PROFILE = EXAMPLE / 'acme.toml'
# What is not linked to: torch_xla's own, and what tells of its installation.
_LEFT_OUT = re.compile(r'torch_xla|_XLAC|torchax|acme|__pycache__|.*\.pth$')
_SECONDS = 240


def run(*command: str | Path, cwd: Path, **environ: str) -> str:
  """What a command prints, which has to succeed, in a bare environment."""
  bare = [f'{name}={os.environ.get(name, "/")}' for name in ('PATH', 'HOME')]
  bare += [f'{name}={value}' for name, value in environ.items()]
  return output_of('env', '-i', *bare, *command, cwd=cwd, timeout=_SECONDS)


@pytest.fixture(scope='module', name='acme_wheel')
def acme_wheel_fixture(tmp_path_factory) -> Path:
  folder = tmp_path_factory.mktemp('acme')
  said = run(
      sys.executable,
      ROOT / 'setup.py',
      'bdist_wheel',
      '--profile',
      PROFILE,
      '--python',
      running_python(),
      '--dist-dir',
      folder,
      cwd=folder)
  wheel, = folder.iterdir()
  assert '[3/6] applying series acme-variables' in said.splitlines()
  assert said.splitlines()[-1] == str(wheel)
  return wheel


@pytest.fixture(scope='module', name='python')
def python_fixture(acme_wheel, tmp_path_factory) -> Path:
  """The Python of an environment with nothing but ACME's wheel."""
  folder = tmp_path_factory.mktemp('environment')
  run(sys.executable,
      '-m',
      'venv',
      '--without-pip',
      folder / 'venv',
      cwd=folder)
  python = folder / 'venv' / 'bin' / 'python'
  packages = folder / 'packages'
  packages.mkdir()
  import torch
  for path in Path(torch.__file__).parents[1].iterdir():
    if not _LEFT_OUT.match(path.name):
      (packages / path.name).symlink_to(path)
  site = run(
      python,
      '-c',
      'import sysconfig; print(sysconfig.get_path("purelib"))',
      cwd=folder).strip()
  (Path(site) / 'packages.pth').write_text(f'{packages}\n')
  pip = (sys.executable, '-m', 'pip', '--python', python)
  # Without an index: what the wheel needs has to be there.
  suite = build_pure_wheel(ROOT, folder, CONFORMANCE)
  run(*pip, 'install', '--quiet', '--no-index', acme_wheel, suite, cwd=folder)
  run(*pip, 'check', cwd=folder)
  return python


@pytest.mark.nightly
def test_it_is_verified(acme_wheel, tmp_path):
  said = run(
      sys.executable,
      ROOT / 'infra' / 'wheel',
      'verify',
      acme_wheel,
      '--profile',
      PROFILE,
      cwd=tmp_path)
  assert 'acme-variables: xla-env-vars-name-the-variable-of-acme' in said
  assert "     3 the vendor's, from the profile\n" in said


@pytest.fixture(name='vendors_folder')
def vendors_folder_fixture(tmp_path) -> Path:
  """The vendor's repository, whose own package is not what the wheel has."""
  shutil.copy(EXAMPLE / 'train.py', tmp_path)
  (tmp_path / 'acme_pjrt').mkdir()
  (tmp_path / 'acme_pjrt' / '__init__.py'
  ).write_text('raise ImportError("this is the package of the checkout")\n')
  return tmp_path


def run_step(name: str, python: Path, *more: str, cwd: Path,
             **environ: str) -> str:
  """What a step of ci.yml prints, by this Python and with more arguments."""
  file = yaml.safe_load((EXAMPLE / 'ci.yml').read_text())
  step, = (s for s in file['jobs']['wheel']['steps'] if s.get('name') == name)
  program, *arguments = step['run'].split()
  assert program == 'python'
  environ = step.get('env', {}) | environ
  return run(python, *arguments, *more, cwd=cwd, **environ)


@pytest.mark.nightly
def test_the_plugin_is_the_environments(python, tmp_path):
  code = 'import torch_xla, acme_pjrt; print(acme_pjrt.__file__)'
  said = run(python, '-c', code, cwd=tmp_path)
  assert Path(said.strip()).is_relative_to(python.parents[1])


@pytest.mark.nightly
def test_it_trains_as_the_profile_says(python, vendors_folder):
  said = run_step('Train', python, cwd=vendors_folder)
  assert ('torch_xla 2.9.0+acme.3, mode shardy, 8 devices of ACME\n'
          'partitioned by shardy\n') in said
  first, last = re.search(r'^loss (\S+) -> (\S+)$', said, re.MULTILINE).groups()
  assert float(last) < float(first) / 10


@pytest.mark.nightly
def test_it_trains_as_the_users_environment_says(python, vendors_folder):
  said = run_step(
      'Train',
      python,
      cwd=vendors_folder,
      XLA_SHARDING_V2='1',
      ACME_DEVICES='4')
  assert ('torch_xla 2.9.0+acme.3, mode v2, 4 devices of ACME\n'
          'partitioned by gspmd\n') in said


# What a process that only imports torch_xla says of itself, as JSON.
_STATE = '''
import json, os
import torch_xla, torch_xla.core.xla_env_vars as names
from torch_xla.experimental import plugins
from torch_xla.shardy import doctor
found = {f.check: f.found for f in doctor.check().findings}
assert doctor.check().ok, doctor.check()
mode, device = torch_xla.shardy.current_mode().value, os.environ['PJRT_DEVICE']
torch_xla.runtime.use_shardy()
print(json.dumps({
    'mode': mode,
    'called for': torch_xla.shardy.current_mode().value,
    'device': device,
    'registered': 'ACME' in plugins._plugin_registry,
    'patched': names.ACME_DEVICES,
    'profile': found['profile'],
    'environment': found['environment']}))
'''


@pytest.mark.nightly
@pytest.mark.parametrize('environ, mode, device, profile', [
    ({}, 'shardy', 'ACME', 'the profile of 2.9.0+acme.3 sets ACME_DEVICES=8 '
     'NPROC=20 PJRT_DEVICE=ACME XLA_STABLEHLO_COMPILE=0 XLA_USE_SHARDY=1'),
    ({
        'XLA_USE_SHARDY': '0',
        'PJRT_DEVICE': 'CPU'
    }, 'off', 'CPU', 'the profile of 2.9.0+acme.3 sets ACME_DEVICES=8 NPROC=20 '
     'XLA_STABLEHLO_COMPILE=0; otherwise in this process: PJRT_DEVICE '
     'XLA_USE_SHARDY'),
])
def test_what_the_doctor_says_and_a_call_does(environ, mode, device, profile,
                                              python, tmp_path):
  state = json.loads(
      run(python, '-c', _STATE, cwd=tmp_path, **environ).splitlines()[-1])
  assert state == {
      'mode': mode,
      'called for': 'shardy',
      'device': device,
      'registered': True,
      'patched': 'ACME_DEVICES',
      'profile': profile,
      'environment': 'no variable was set too late, none is misread',
  }


@pytest.mark.nightly
def test_the_conformance_suite_runs_on_it(python, vendors_folder):
  """The CI file runs it so, but for how many cases."""
  (vendors_folder / 'shardy').symlink_to(ROOT)
  said = run_step(
      'Conformance', python, '--only', 'start.version', cwd=vendors_folder)
  assert re.search(r'^conforms \(\d+ passed\)$', said, re.MULTILINE)
  assert 'name="start.version"' in (vendors_folder / 'out.xml').read_text()


def test_the_page_shows_the_profile():
  """But for the variable that only XLA's CPU plugin needs."""
  page = (ROOT / 'docs' / 'custom-wheels.md').read_text()
  shown = tomllib.loads(re.search(r'```toml\n(.*?)```', page, re.DOTALL)[1])
  there = tomllib.loads(PROFILE.read_text())
  del there['defaults']['environment']['NPROC']
  assert shown == there


def test_the_package_by_itself_names_the_same_class():
  project = tomllib.loads((EXAMPLE / 'pyproject.toml').read_text())['project']
  plugin = load_profile(PROFILE).plugin
  assert project['entry-points']['torch_xla.plugins'] == {
      plugin.device.lower(): plugin.class_name
  }


def test_the_ci_file_names_what_exists():
  """Its commands, as they stand in the vendor's repository."""
  file = yaml.safe_load((EXAMPLE / 'ci.yml').read_text())
  steps = file['jobs']['wheel']['steps']
  commands = '\n'.join(step.get('run', '') for step in steps)
  ours = re.findall(r'\bshardy/([\w./-]+)', commands)
  assert {*ours} == {
      'setup.py', 'infra/wheel', 'infra/requirements.txt',
      'examples/xla_cpu_expected_failures.txt'
  }
  for name in ours:
    assert (ROOT / name).exists()
  assert (EXAMPLE / 'train.py').is_file() and 'python train.py' in commands
  text = (ROOT / 'setup.py').read_text() + (
      ROOT / 'infra/wheel/__main__.py').read_text()
  for option in ('--profile', '--dist-dir'):
    assert option in commands and f"'{option}'" in text
