"""Each fault of a wrong plugin is found, by the case that is meant.

Also that all cases can fail, and that what a plugin cannot do is no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import ctypes
import importlib.util
from pathlib import Path
import sys

from fault_rows import Row
import faults_of_programs
import faults_of_public
import faults_of_tables
import faults_of_time
import pytest
from torch_xla_conformance import session, suite
from torch_xla_conformance.result import ConformanceReport, counts, Status
from torch_xla_conformance.running.run import Servers
from torch_xla_conformance.subject import Subject

sys.path.append(str(Path(__file__).resolve().parents[1] / 'csrc'))

from wrong_plugin_build import faults, link  # pylint: disable=wrong-import-position

ENVIRONMENT = {}  # Beside the tests that need no child.
ROWS = (*faults_of_tables.ROWS, *faults_of_programs.ROWS, *faults_of_time.ROWS,
        *faults_of_public.ROWS)
# Where a plugin ends, there is nothing to be tried but what looks at its table.
_TABLE_ONLY = 'start.version'

Library = Callable[..., Path]


@pytest.fixture(scope='module', name='servers')
def servers_fixture() -> Iterator[Servers]:
  servers = Servers()
  yield servers
  servers.close()


@pytest.fixture(scope='module', name='library')
def library_fixture(tmp_path_factory: pytest.TempPathFactory) -> Library:
  """The library of a fault, before XLA's CPU plugin or before libtpu."""
  folder = tmp_path_factory.mktemp('wrong_plugins')

  def library(fault: str, opcode: str = '', topology: str = '') -> Path:
    package, file = (('libtpu', 'libtpu.so') if topology else
                     ('xla_plugins.xla_cpu_pjrt', 'xla_cpu_pjrt.so'))
    pytest.importorskip(package.partition('.')[0])
    spec = importlib.util.find_spec(package)
    assert spec and spec.submodule_search_locations
    inner = str(Path(spec.submodule_search_locations[0], file))
    own = folder / package
    own.mkdir(exist_ok=True)
    return link(own, inner, fault, opcode)

  return library


def _judge(library: Path,
           servers: Servers,
           names: list[str],
           seconds: float = 60,
           topology: str = '') -> ConformanceReport:
  subject = Subject.from_library(
      str(library), {} if topology else {'cpu_device_count': 8}, topology)
  return session.judge(subject, suite.choose(names, []), servers, 1, seconds,
                       lambda line: None)


# One at the start, of what runs, of a sharding and of an event.
_IN_THE_WHOLE = ('crash-at-start', 'wrong-op@add', 'v1-misread', 'early-read')


@pytest.mark.slow
@pytest.mark.parametrize('row', [
    pytest.param(
        row,
        id=row.id,
        marks=[pytest.mark.nightly] * (row.id not in _IN_THE_WHOLE))
    for row in ROWS
])
def test_is_found(row: Row, servers: Servers, library: Library) -> None:
  names = [f.name for f in row.found if not f.name.startswith('capabilities')]
  report = _judge(
      library(row.fault, row.opcode, row.topology), servers,
      [*names, *row.passes] or [_TABLE_ONLY], row.seconds, row.topology)
  results = {result.name: result for result in report.results}
  for wanted in row.found:
    found = results[wanted.name]
    assert found.status.value == wanted.status, found
    assert wanted.text in found.text
  for name in row.passes:
    assert results[name].status is Status.PASSED, results[name]
  told = {name: report.capabilities[name] for name in row.capabilities}
  assert told == row.capabilities


@pytest.mark.nightly
def test_nothing_is_found_of_one_that_is_right(servers: Servers,
                                               library: Library) -> None:
  report = _judge(
      library('right'), servers, [
          'start.*', 'transfers.types/*', 'errors.*', 'donation.*',
          'collectives.sums/turned.*', 'shardings.forms', 'priorities.*'
      ])
  assert not report.findings
  assert counts(report.results)[Status.PASSED] > 50


def test_every_fault_is_looked_for() -> None:
  assert sorted({row.fault for row in ROWS}) == sorted(faults())


def _parts(names: set[str]) -> set[str]:
  """An operation's family and sharding: all operations have one function."""
  return {
      part for name in names for part in (
          name.split('.')[1:] if name.startswith('operations.') else [name])
  }


def test_every_case_can_fail() -> None:
  failing = {
      found.name.partition('/')[0]
      for row in ROWS
      for found in row.found
      if found.status != 'skipped'
  }
  assert _parts(failing - {'capabilities'}) == _parts(
      {case.name for case in suite.cases()})


def test_no_such_fault(library: Library,
                       capfd: pytest.CaptureFixture[str]) -> None:
  loaded = ctypes.CDLL(str(library('nonsense')))
  loaded.GetPjrtApi.restype = ctypes.c_void_p
  assert loaded.GetPjrtApi() is None
  assert "no fault is called 'nonsense'" in capfd.readouterr().err
