"""Runs sections (bind/sections.py) as StableHLO, on XLA's CPU plugin or on the
stand-in for a vendor's (test/csrc/stablehlo_plugin.c), to be compared with HLO.

A section may be any picklable callable that takes a `Run` and gives plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
import contextlib
import dataclasses
import faulthandler
import inspect
import logging
import os
from pathlib import Path
import sys
import tempfile
from types import ModuleType
from typing import Any, Optional

import processes
import pytest
from sections import Outcome, outcome_of, Run, said, SHARDY
from torch_xla.experimental import plugins
from torch_xla.shardy import door
from torch_xla.shardy.compile.record import ProgramRecord
from torch_xla.shardy.door.device_plugins import (CPU_DEVICE, LIBRARY_DEVICE,
                                                  LibraryPlugin, XlaCpuPlugin)
from torch_xla.shardy.hlo import compiled_program

sys.path.append(str(Path(__file__).resolve().parents[2] / 'csrc'))

from shim_build import build_once, ROOT  # pylint: disable=wrong-import-position

Section = Callable[[Run], Any]
_LIBRARY = ROOT / 'build/bazel-bin/test/csrc/libstablehlo_plugin.so'
# Before torch_xla is imported; the library need not be built yet.
VENDOR = dict(
    PJRT_DEVICE=LIBRARY_DEVICE,
    PJRT_LIBRARY_PATH=str(_LIBRARY),
    XLA_USE_SHARDY='1',
    # As `XlaCpuPlugin` has it: queued collectives need threads.
    NPROC=str(2 * 8 + 2 * (os.cpu_count() or 1)))
STABLEHLO = {'XLA_STABLEHLO_COMPILE': '1'}


@dataclasses.dataclass(frozen=True)
class Way:
  """How programs reach a plugin, and which.

  Attributes:
    variables: the environment, before torch_xla is imported.
    settings: of the stand-in, without the prefix; None: XLA's CPU plugin.
    converts: whether torch_xla has programs in HLO, which are converted because
      the device plugin says so.
  """
  variables: dict[str, str]
  settings: Optional[dict[str, str]] = None
  converts: bool = False

  def told(self, **settings: str) -> Way:
    """The same with other settings of the stand-in."""
    return dataclasses.replace(self, settings={**self.settings, **settings})


HLO = Way(SHARDY)
XLA = Way({**SHARDY, **STABLEHLO})
XLA_CONVERTED = Way(SHARDY, converts=True)
SDY = Way({**VENDOR, **STABLEHLO}, dict(VERSION='1.13.3', FORBIDS='xla.sdy'))
ATTRIBUTES = SDY.told(VERSION='1.10.0', FORBIDS='sharding_constraint')
CONVERTED = Way(VENDOR, SDY.settings, converts=True)
WAYS = {
    'HLO': HLO,
    'XLA': XLA,
    'XLA, converted': XLA_CONVERTED,
    'sdy': SDY,
    'attributes': ATTRIBUTES,
    'converted': CONVERTED,
    # What it tells of programs (STABLEHLO_PLUGIN_ANSWERS).
    **{
        answers: SDY.told(ANSWERS=answers) for answers in ('hlo', 'echo', 'none', 'absent', 'wrong', 'damaged', 'silent')
    },
}


def form_of(way: str) -> str:
  """The form of the programs that Shardy gets by a way."""
  return 'attributes' if way == 'attributes' else 'sdy'


@dataclasses.dataclass(frozen=True)
class Made:
  """What became of a program.

  Attributes:
    asked: spec and priority of each annotated tensor.
    moved: bytes by kind of collective, and how many, in what XLA compiled.
  """
  format: str
  form: str
  partitioner: str
  asked: list[tuple[str, Any]]
  note: str
  error: Optional[str]
  moved: dict[str, tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Ended:
  """What became of a section, and of each of its programs.

  Attributes:
    arrived: how many programs the stand-in was given.
    warned: what was warned of.
  """
  outcome: Outcome
  programs: list[Made]
  arrived: int
  warned: list[str]

  @property
  def seen(self) -> Any:
    """What it saw; fails as it did."""
    if self.outcome.error:
      pytest.fail(self.outcome.error, pytrace=False)
    assert self.outcome.leaked == 0
    return self.outcome.seen


def run(way: Way, *sections: Section) -> dict[Section, Ended]:
  """Runs sections one after the other in one process."""
  build_once()
  return processes.call(_run_all, way, sections, **way.variables).value


def _run_all(way: Way, sections: Sequence[Section]) -> dict[Section, Ended]:
  faulthandler.enable()
  with started(way) as dump, _compiled_told_by(dump), Run.start() as on:
    return {section: _run(section, on, dump) for section in sections}


def _run(section: Section, on: Run, dump: Optional[Dump]) -> Ended:
  before = len(on.programs)
  arrived = 0 if dump is None else len(dump.arrived())
  warned: list[str] = []
  handler = logging.Handler(logging.WARNING)
  handler.emit = lambda record: warned.append(record.getMessage())
  logger = logging.getLogger('torch_xla.shardy')
  logger.addHandler(handler)
  try:
    outcome = outcome_of(section, on)
  finally:
    logger.removeHandler(handler)
  return Ended(outcome, [_made(p, dump) for p in on.programs[before:]],
               0 if dump is None else len(dump.arrived()) - arrived, warned)


@contextlib.contextmanager
def started(way: Way) -> Iterator[Optional[Dump]]:
  """Sets this process up, before its runtime comes up; gives the dump."""
  if way.settings is None:
    if way.converts:
      plugins.register_plugin(CPU_DEVICE, _XlaCpuOfStableHlo())
    yield None
    return
  if way.converts:
    plugins.register_plugin(LIBRARY_DEVICE, _LibraryOfStableHlo())
  with tempfile.TemporaryDirectory() as folder:
    given = dict(
        INNER=XlaCpuPlugin().library_path(),
        DEVICES='8',
        DUMP=folder,
        TEXT=str(ROOT / 'test/csrc/compiled_text.py'),
        **way.settings)
    for name, value in given.items():
      os.environ[f'STABLEHLO_PLUGIN_{name}'] = value
    yield Dump(Path(folder))


class _XlaCpuOfStableHlo(XlaCpuPlugin):

  def program_format(self) -> str:
    return 'mlir'


class _LibraryOfStableHlo(LibraryPlugin):

  def program_format(self) -> str:
    return 'mlir'


@dataclasses.dataclass(frozen=True)
class Dump:
  """What the stand-in was given, and what was really compiled of it."""
  folder: Path

  def arrived(self) -> list[bytes]:
    """The programs, also those that were refused."""
    return [p.read_bytes() for p in self._paths()]

  def compiled_of(self, program: bytes) -> Optional[bytes]:
    """What became of a program last, as HloModuleProtoWithConfig."""
    for path in reversed(self._paths()):
      compiled = path.with_suffix('.compiled')
      if compiled.exists() and path.read_bytes() == program:
        return compiled.read_bytes()
    return None

  def _paths(self) -> list[Path]:
    return sorted(self.folder.glob('*.mlir'), key=lambda p: int(p.stem))


def _made(program: ProgramRecord, dump: Optional[Dump]) -> Made:
  collectives = program.collectives
  if dump is not None:
    made = dump.compiled_of(program.handed_on)
    collectives = made and compiled_program.read(made,
                                                 'hlo_with_config').collectives
  return Made(program.format, program.form, program.partitioner.value,
              said(program)[1], program.note, program.error,
              {c.kind: (c.count, c.nbytes) for c in collectives or ()})


@contextlib.contextmanager
def _compiled_told_by(dump: Optional[Dump]) -> Iterator[None]:
  """Wrappers at the door read it of the dump, and not of the plugin."""

  def tell(compilation: door.Compilation, rest: door.Compiler) -> None:
    hand_on, handed_on = compilation.compile, []

    def compile_(program: bytes, *more: Any) -> None:
      handed_on[:] = [program]
      hand_on(program, *more)

    compilation.compile = compile_
    rest(compilation)
    compilation.compiled_program = lambda: (dump.compiled_of(*handed_on),
                                            'hlo_with_config')

  undo = (lambda: None) if dump is None else door.wrap(tell)
  try:
    yield
  finally:
    undo()


def annotated(ended: Ended) -> list[tuple[Any, ...]]:
  """The programs with annotated tensors: what was asked, and what came of it.

  Without the reason where every attempt failed: these are not the same.
  """
  return [(p.partitioner, p.asked, '' if p.error else p.note, p.moved)
          for p in ended.programs
          if p.asked]


def sections_of(module: ModuleType) -> dict[Section, bool]:
  """The sections that a module's tests ask for, and whether they are slow."""
  found: dict[Section, bool] = {}
  for test in vars(module).values():
    for arguments, is_slow in _calls_of(module, test):
      if 'section' in arguments:
        section = arguments['section']
        found[section] = found.get(section, True) and is_slow
  return found


def _calls_of(module: ModuleType,
              test: Any) -> Iterator[tuple[dict[str, Any], bool]]:
  """The arguments of each call of a test, and whether it is slow."""
  if not inspect.isfunction(test) or not test.__name__.startswith('test_'):
    return
  marks = getattr(test, 'pytestmark', [])
  is_slow = _is_slow(marks) or _is_slow(getattr(module, 'pytestmark', []))
  sets = [mark for mark in marks if mark.name == 'parametrize']
  assert len(sets) <= 1, test
  if not sets:
    yield {}, is_slow
  for mark in sets:
    names = [name.strip() for name in mark.args[0].split(',')]
    for one in mark.args[1]:
      values = one
      if isinstance(one, type(pytest.param())):
        values = one.values if len(names) > 1 else one.values[0]
      values = values if len(names) > 1 else [values]
      own = getattr(one, 'marks', ())
      yield dict(zip(names, values)), is_slow or _is_slow(own)


def _is_slow(marks: Any) -> bool:
  marks = marks if isinstance(marks, (list, tuple)) else [marks]
  return any(mark.name == 'slow' for mark in marks)


def run_asked(request: pytest.FixtureRequest, *ways:
              str) -> dict[tuple[str, Section], Ended]:
  """Runs what this session's tests of the module ask for, by way and section.

  They do by their parameters `way` and `section`.

  Args:
    ways: by which all of the sections are run, too.
  """
  wanted: dict[str, dict[Section, None]] = {}
  for item in request.session.items:
    parameters = getattr(getattr(item, 'callspec', None), 'params', {})
    if item.module is request.module and 'section' in parameters:
      for way in {parameters['way'], *ways}:
        wanted.setdefault(way, {})[parameters['section']] = None

  def run_on(way: str) -> dict[Section, Ended]:
    return run(WAYS[way], *wanted[way])

  with futures.ThreadPoolExecutor(2) as pool:
    by_way = zip(wanted, pool.map(run_on, wanted))
    return {
        (way, section): ended for way, of_way in by_way
        for section, ended in of_way.items()
    }
