"""`torch-xla-shardy audit` with real scripts."""

import functools
import json
import os
from pathlib import Path
import subprocess
import sys
from xml.etree import ElementTree

import processes
from processes import clean_environment
import pytest
from torch_xla_shardy.main import main

ENVIRONMENT = {}  # Beside the tests that need no child.
_SECONDS = 240

# As users' scripts do, it sets the runtime's variables before it imports
# torch_xla. Arguments: the spec of the weight, then how to end.
SCRIPT = '''
import os, sys
os.environ.update(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1')
import numpy as np, torch, torch_xla
import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr
from torch_xla.distributed.spmd.policy import REPLICATED, Rule, ShardingPolicy
import beside

def main():
  assert __name__ == '__main__' and os.path.basename(sys.argv[0]) == 'train.py'
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  model = torch.nn.Linear(8, 16).to('xla')
  axis = sys.argv[1]
  if axis == 'by hand':
    xs.mark_sharding(model.weight, mesh, ('model', None))
  else:
    ShardingPolicy((Rule('weight', (axis, None)),),
                   REPLICATED).apply(model, mesh)
  loss = model(torch.randn(4, 8).to('xla')).square().sum()
  loss.backward()
  torch.optim.SGD(model.parameters(), momentum=0.5).step()  # Is let go of.
  # The end of the script leaves this step to the audit.
  print('script has run', beside.WORD)

main()
'''
POLICY = '''default = "replicated"
[[rule]]
pattern = "weight"
spec = ["model", "-"]
'''
NO_MODEL = "import torch_xla\nprint('script has run')\n"
TWO_MODELS = '''
import os
os.environ.update(PJRT_DEVICE='CPU', CPU_NUM_DEVICES='8', XLA_USE_SHARDY='1')
import numpy as np, torch, torch_xla
import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr

def main():
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (8,), ('data',))
  one, other = (torch.nn.Linear(8, 8).to('xla') for _ in range(2))
  xs.mark_sharding(one.weight, mesh, ('data', None))
  other(one(torch.randn(8, 8).to('xla'))).sum().backward()

main()
'''
FAILS = "raise ValueError('the script is wrong')\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
  (tmp_path / 'train.py').write_text(SCRIPT)
  (tmp_path / 'beside.py').write_text("WORD = 'well'\n")
  (tmp_path / 'policy.toml').write_text(POLICY)
  (tmp_path / 'no_model.py').write_text(NO_MODEL)
  (tmp_path / 'two.py').write_text(TWO_MODELS)
  (tmp_path / 'fails.py').write_text(FAILS)
  return tmp_path


def run_command(project: Path, *arguments: str) -> subprocess.CompletedProcess:
  """The command, as a user's shell starts it."""
  return subprocess.run(
      [sys.executable, '-m', 'torch_xla.shardy', 'audit', *arguments],
      cwd=project,
      env=clean_environment(),
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      timeout=_SECONDS,
      check=False)


def run_main(folder: str, arguments: tuple[str, ...]) -> None:
  os.chdir(folder)
  sys.exit(main(['audit', *arguments]))


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess:
  """The command from where it has its arguments, in a forked process.

  A new process starts where the command itself becomes one, to run the script.
  """
  return processes.ended(functools.partial(run_main, str(project), arguments))


@pytest.mark.nightly
def test_a_script_is_audited_and_held_to_its_json(project):
  made = run_command(project, '--policy', 'policy.toml', '--json', 'made.json',
                     '--html', 'page.html', 'train.py', 'model')
  assert made.returncode == 0, made.stderr
  assert 'script has run well' in made.stdout
  assert 'mode shardy, mesh data=2, model=4' in made.stdout
  assert '</html>' in (project / 'page.html').read_text()
  # Another process, the same set-up: the same file, to the byte.
  again = run(project, '--policy', 'policy.toml', '--golden', 'made.json',
              '--json', 'again.json', 'train.py', 'model')
  assert again.returncode == 0, again.stdout + again.stderr
  assert (project / 'again.json').read_text() == (project /
                                                  'made.json').read_text()
  now = run(project, '--junit', 'found.xml', '--require', 'replicated bytes<=1',
            '--golden', 'made.json', 'train.py', 'data')
  assert now.returncode == 1, now.stderr
  suite = ElementTree.parse(project / 'found.xml').getroot()
  assert {t.get('name') for t in suite if len(t)
         } == {'requirement', 'golden file'}


@pytest.mark.slow
def test_differences_are_status_1(project):
  done = run(project, '-q', '--policy', 'policy.toml', '--tolerance', '0',
             '--json', 'found.json', 'train.py', 'data')
  assert done.returncode == 1, done.stderr
  assert 'mode shardy' not in done.stdout  # Its findings alone.
  assert "weight: stored placement: the policy says ('model', None)" in (
      done.stdout)
  found = json.loads((project / 'found.json').read_text())['differences']
  assert [(d['kind'], d['name']) for d in found
         ] == [('annotation', 'weight'), ('stored placement', 'weight'),
               ('compiled program', 'weight'),
               ('replicated bytes', 'all tensors')]


@pytest.mark.parametrize('script, status, text', [
    pytest.param(
        'no_model.py',
        2,
        'no_model.py left no model on the device xla',
        marks=pytest.mark.nightly),
    pytest.param(
        'two.py',
        2,
        'two.py left several models, as Linear, Linear_2, and a policy is for one',
        marks=pytest.mark.nightly),
    ('fails.py', 3, "ValueError: the script is wrong\naudit: fails.py failed"),
])
def test_scripts_that_cannot_be_audited(project, script, status, text):
  done = run(project, '--policy', 'policy.toml', script)
  assert done.returncode == status
  assert text in done.stderr


@pytest.mark.nightly
def test_a_script_without_a_policy(project):
  done = run(project, '--capture', 'captured.toml', 'train.py', 'by hand')
  assert done.returncode == 1, done.stderr
  assert '\n  bias: never annotated: nobody marked it, and the compiler' in (
      done.stdout)
  assert "policy ('model', None)" in ' '.join(done.stdout.split())
  assert 'optimizer state momentum_buffer' in done.stdout
  assert (project / 'captured.toml').read_text() == POLICY.replace('[[', '\n[[')


def test_wrong_usage_is_status_2_before_the_script_runs(project):
  (project / 'wrong.toml').write_text('[[rule]]\nspec = []\n')
  for arguments, text in (
      (('--policy', 'policy.toml', 'nowhere.py'), "no script 'nowhere.py'"),
      (('--policy', 'wrong.toml', 'train.py'), 'rule 1: pattern is missing'),
      (('--golden', 'nowhere.json', 'train.py'), "no file 'nowhere.json'"),
      (('--golden', 'policy.toml', 'train.py'), 'write one with --json FILE'),
      (('--require', 'bytes', 'train.py'), "requirement 'bytes': write"),
  ):
    done = run(project, *arguments)
    assert done.returncode == 2
    assert text in done.stderr and 'script has run' not in done.stdout
