"""A copy of the checkout to plant faults in, and the tests that run there.

The user's files are only read. The copy has a folder that stands before
site-packages on the path, with the installed torch_xla as links in which the
copy's files take the place of the checkout's.
"""

from __future__ import annotations

from collections.abc import Sequence
import contextlib
import importlib
import importlib.util
import json
import multiprocessing
import os
from pathlib import Path
import shutil
import signal
import sys
import tempfile
from typing import Any

from infra.errors import BuildError
from infra.mutants.faults import Fault
from infra.wheel.overlay import wheel_files
from infra.wheel.pure_wheel import files_of
from infra.wheel.tools import TOOLS

# What nearly every test imports, and takes seconds.
_WARM = ('torch', 'torch._inductor.compile_fx', 'pytest', 'hypothesis')
_NOT_COPIED = ('.git', '.venv*', '.hypothesis', '.pytest_cache', 'build',
               'dist')
_WHEELS = 'build/wheels'  # Official ones, which tests take from there.
_PACKAGE = 'torch_xla'


def warm() -> None:
  """Imports what a process of tests that is forked then need not."""
  for name in _WARM:
    importlib.import_module(name)


class Bench:
  """A copy of a checkout.

  Attributes:
    checkout: where it lies.
  """

  def __init__(self, root: Path, folder: Path):
    self._root = root
    self.checkout, self._site = folder / 'checkout', folder / 'site-packages'
    self._temporary, self._originals = folder / 'tmp', folder / 'kept'
    self._result, self._output = folder / 'result', folder / 'output'
    self._temporary.mkdir(parents=True)
    shutil.copytree(
        root, self.checkout, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    if (root / _WHEELS).is_dir():
      (self.checkout / 'build').mkdir()
      (self.checkout / _WHEELS).symlink_to(root / _WHEELS)
    own = {name: self.checkout / name for name in wheel_files(self.checkout)}
    if own:
      shutil.copytree(
          _installed(), self._site / _PACKAGE, copy_function=os.symlink)
      for tool in TOOLS:
        own |= files_of(self.checkout, tool)
    for name, path in own.items():
      link = self._site / name
      link.parent.mkdir(parents=True, exist_ok=True)
      link.unlink(missing_ok=True)
      link.symlink_to(path)

  def plant(self, fault: Fault) -> None:
    """Has the copy have a fault.

    Raises:
      BuildError: its file is not as the table says.
    """
    path = self._path(fault.file)
    text = fault.planted(path.read_text(encoding='utf-8'))
    path.rename(self._originals)
    path.write_text(text, encoding='utf-8')

  def mend(self, fault: Fault) -> None:
    """Puts the file of the fault that was planted back."""
    self._originals.rename(self._path(fault.file))

  def start(self, tests: Sequence[str],
            stops: bool) -> multiprocessing.process.BaseProcess:
    """Starts tests in a process of their own.

    Args:
      tests: modules and node ids.
      stops: whether to stop at the first failure.
    """
    self._result.unlink(missing_ok=True)
    process = multiprocessing.get_context('fork').Process(
        target=self._run, args=(list(tests), stops))
    process.start()
    return process

  def result(self) -> dict[str, Any]:
    """What came of the tests: `status`, `passed`, `failed` and `output`."""
    output = self._output.read_text(encoding='utf-8', errors='replace')
    said = dict(status=None, passed=[], failed=[])
    with contextlib.suppress(FileNotFoundError):
      said = json.loads(self._result.read_text(encoding='utf-8'))
    return dict(said, output=output)

  def _path(self, name: str) -> Path:
    places = [self.checkout / name, self._site / name]
    found = [path for path in places if path.is_file()]
    if not found:
      raise BuildError(f'there is no file {name}')
    return found[0]

  def _run(self, tests: list[str], stops: bool) -> None:
    os.setsid()  # To be ended with all that it starts.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with open(self._output, 'wb') as output:
      for number in (1, 2):
        os.dup2(output.fileno(), number)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    os.chdir(self.checkout)
    os.environ.update(PYTHONPATH=str(self._site), TMPDIR=str(self._temporary))
    tempfile.tempdir = None
    # Read caches, and write none of what is changed soon.
    os.environ['PYTHONDONTWRITEBYTECODE'] = '1'
    sys.dont_write_bytecode = True
    # The tools themselves are the copy's, too.
    for name in [n for n in sys.modules if n.partition('.')[0] == 'infra']:
      del sys.modules[name]
    kept = [p for p in sys.path if p not in ('', str(self._root))]
    sys.path[:] = [str(self._site), *kept]
    importlib.invalidate_caches()
    import pytest
    reports = _Reports()
    arguments = ['-q', '-p', 'no:cacheprovider', *(['-x'] if stops else [])]
    status = pytest.main([*arguments, *tests], plugins=[reports])
    said = dict(
        status=int(status), passed=reports.passed, failed=reports.failed)
    self._result.write_text(json.dumps(said), encoding='utf-8')
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # What is at an exit of this process is its parent's.


class _Reports:
  """A plugin of pytest's: who passed, and who failed, when and how."""

  def __init__(self):
    self.passed: list[str] = []
    self.failed: list[tuple[str, str, str]] = []

  def pytest_runtest_logreport(self, report: Any) -> None:
    if report.failed:
      self.failed.append((report.nodeid, report.when, report.longreprtext))
    elif report.passed and report.when == 'call':
      self.passed.append(report.nodeid)


def _installed() -> Path:
  """Where torch_xla is installed, without importing it.

  Raises:
    BuildError: it is not.
  """
  spec = importlib.util.find_spec(_PACKAGE)
  if spec is None or spec.origin is None:
    raise BuildError('torch_xla is not installed: run bash infra/develop.sh')
  return Path(spec.origin).parent
