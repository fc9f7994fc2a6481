"""Plants small faults in a copy of the checkout, and has tests find them.

faults.toml holds what a slip looks like, and who sees it:

    ["FILE".NAME]
    find = a text that the file has exactly once
    put = what takes its place
    test = what has to fail: a module under test/, or a node id of pytest's

FILE is in the checkout, or an official file as the wheel has it, and NAME says
what goes wrong, in a few words with hyphens. First all these tests run without a
fault, on the installed torch_xla with the copy's files. Run it with .venv's
Python, after bash infra/develop.sh. Exit status: 0 if every fault was found, 1 if
one survives, 2 on an error, as where the table does not fit the code.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = Path(__file__).resolve().parents[2]
if __name__ == '__main__':
  sys.path[0] = str(ROOT)

from infra.develop import link_all
from infra.errors import BuildError
from infra.wheel.overlay import wheel_files
from infra.wheel.pure_wheel import files_of
from infra.wheel.tools import TOOLS

_TABLE = 'infra/mutants/faults.toml'
_NOT_COPIED = ('.git', '.venv*', '.hypothesis', '.pytest_cache', 'build',
               'dist')
_WHEELS = 'build/wheels'  # Official ones, which tests take from there.
_SECONDS = 900
_LAST = 3000  # Characters of what tests printed.
# Errors of a fault that does not run, rather than does something wrong.
_BROKEN = re.compile(
    r'^E +(SyntaxError|IndentationError|ImportError|NameError|'
    r'ModuleNotFoundError|UnboundLocalError)\b', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Fault:
  """A row of the table."""
  name: str
  file: str
  find: str
  put: str
  test: str

  def planted(self, text: str) -> str:
    """The file's text with the fault.

    Raises:
      BuildError: it is not as the table says.
    """
    count = text.count(self.find)
    if count != 1:
      raise BuildError(f'{self.name}: {self.file} has the text {count} times '
                       f'and not once:\n{self.find}')
    return text.replace(self.find, self.put)


def load(root: Path) -> list[Fault]:
  """The table of a checkout; a ValueError or TypeError if it is none."""
  table = tomllib.loads((root / _TABLE).read_text(encoding='utf-8'))
  return [
      Fault(name, file, **row)
      for file, rows in table.items()
      for name, row in rows.items()
  ]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
  """Runs the command line on the checkout `root`; returns the exit status."""
  parser = argparse.ArgumentParser(
      prog='python -m infra.mutants',
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      '--only',
      metavar='NAME',
      action='append',
      default=[],
      help='plant this fault alone; may be given more than once')
  options = parser.parse_args(arguments)
  try:
    faults = load(root)
    unknown = {*options.only} - {fault.name for fault in faults}
    if unknown:
      raise BuildError(f'{_TABLE} has no fault {", ".join(sorted(unknown))}')
    faults = [f for f in faults if not options.only or f.name in options.only]
    with tempfile.TemporaryDirectory(
        prefix='mutants-', ignore_cleanup_errors=True) as folder:
      survivors = plant_all(faults, root, Path(folder))
  except (BuildError, OSError, TypeError, ValueError,
          subprocess.TimeoutExpired) as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  for fault in survivors:
    print(
        f'\n{fault.name} survives: {fault.test} passes where in {fault.file}\n'
        f'{fault.find}\nis\n{fault.put}')
  print(f'{len(faults) - len(survivors)} of {len(faults)} faults were found')
  return 1 if survivors else 0


def plant_all(faults: list[Fault], root: Path, folder: Path) -> list[Fault]:
  """Plants all faults, one after another; returns those that survive.

  Raises:
    BuildError: the table does not fit the checkout or its tests.
  """
  checkout, site = folder / 'checkout', folder / 'site-packages'
  _copy(root, checkout, site)
  rows = []
  for fault in faults:
    path = checkout / fault.file
    if not path.is_file():
      path = site / fault.file
    text = path.read_text(encoding='utf-8')
    rows.append((fault, path, text, fault.planted(text)))
  tests = sorted({fault.test for fault in faults})
  done = _run_tests(checkout, site, tests)
  missing = [test for test in tests if f'PASSED {test}' not in done.stdout]
  if done.returncode or missing:
    raise BuildError(f'tests fail or do not run without a fault: '
                     f'{", ".join(missing)}\n{done.stdout[-_LAST:]}')
  survivors = []
  for count, (fault, path, text, planted) in enumerate(rows, 1):
    path.unlink()  # It may be a link to an official file.
    path.write_text(planted, encoding='utf-8')
    done = _run_tests(checkout, site, [fault.test])
    path.write_text(text, encoding='utf-8')
    if done.returncode == 0:
      survivors.append(fault)
    elif (done.returncode != 1 or 'FAILED ' not in done.stdout or
          _BROKEN.search(done.stdout)):
      raise BuildError(
          f'{fault.name}: {fault.test} says nothing of the fault, status '
          f'{done.returncode}:\n{done.stdout[-_LAST:]}')
    verdict = 'found' if done.returncode else 'SURVIVES'
    print(f'[{count}/{len(faults)}] {verdict} {fault.name}', flush=True)
  return survivors


def _copy(root: Path, checkout: Path, site: Path) -> None:
  """Copies a checkout, and the installed torch_xla as links to that copy."""
  shutil.copytree(root, checkout, ignore=shutil.ignore_patterns(*_NOT_COPIED))
  if (root / _WHEELS).is_dir():
    (checkout / 'build').mkdir()
    (checkout / _WHEELS).symlink_to(root / _WHEELS)
  own = {name: checkout / name for name in wheel_files(checkout)}
  if own:
    spec = importlib.util.find_spec('torch_xla')
    if spec is None or spec.origin is None:
      raise BuildError('torch_xla is not installed: run bash infra/develop.sh')
    shutil.copytree(
        Path(spec.origin).parent, site / 'torch_xla', copy_function=os.symlink)
    for tool in TOOLS:
      own |= files_of(checkout, tool)
  link_all(site, own)


def _run_tests(checkout: Path, site: Path,
               tests: list[str]) -> subprocess.CompletedProcess[str]:
  """Runs tests, which build C of their own; prints who passes and who fails."""
  environ = {k: v for k, v in os.environ.items() if k != 'SHARDY_TEST_BUILD'}
  environ |= {'PYTHONPATH': str(site), 'PYTHONDONTWRITEBYTECODE': '1'}
  return subprocess.run([
      sys.executable, '-m', 'pytest', '-q', '-rpf', '-p', 'no:cacheprovider',
      *tests
  ],
                        cwd=checkout,
                        env=environ,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                        errors='replace',
                        timeout=_SECONDS,
                        check=False)


if __name__ == '__main__':
  sys.exit(main())
