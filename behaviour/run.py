"""The files between the command and the pytest that runs the tests.

A folder, named by a variable: `asked.json` says what to run, pytest writes
`names` and `results.jsonl` beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
import json
import os
from pathlib import Path
import zlib

from .shared.result import matches, Result, Status

_VARIABLE = 'TORCH_XLA_BEHAVIOUR_RUN'


@dataclass(frozen=True)
class Asked:
  """The selection of tests to run.

  Attributes:
    missing: of each series that has none of its features, the kind of failure
      that its tests are without being run, and why.
    only: patterns of the tests to run; none: all.
    skip: patterns of those to leave out.
    shard: which of how many, from 1.
  """
  missing: Mapping[str, tuple[str, str]]
  only: Sequence[str] = ()
  skip: Sequence[str] = ()
  shard: tuple[int, int] = (1, 1)

  def runs(self, name: str) -> bool:
    """Tests whether a test is to be run: by its name alone."""
    number, count = self.shard
    return (zlib.crc32(name.encode()) % count == number - 1 and
            (not self.only or any(matches(p, name, '') for p in self.only)) and
            not any(matches(p, name, '') for p in self.skip))


@dataclass(frozen=True)
class Outcome:
  """The outcome of a test, and the kind of its failure."""
  result: Result
  kind: str = ''


@dataclass(frozen=True)
class Run:
  """The folder of a run."""
  folder: Path

  @classmethod
  def current(cls) -> Run | None:
    """That of this process, if it has one."""
    folder = os.environ.get(_VARIABLE)
    return cls(Path(folder)) if folder else None

  @property
  def variables(self) -> dict[str, str]:
    """The environment by which processes find it."""
    return {_VARIABLE: str(self.folder)}

  def ask(self, asked: Asked) -> None:
    """Writes down what to run."""
    (self.folder / 'asked.json').write_text(
        json.dumps(asdict(asked)), encoding='utf-8')

  def asked(self) -> Asked:
    data = json.loads((self.folder / 'asked.json').read_text(encoding='utf-8'))
    return Asked(**data)

  def write_names(self, names: Sequence[str]) -> None:
    """Writes down the names of all tests, whether they are run or not."""
    (self.folder / 'names').write_text('\n'.join(names), encoding='utf-8')

  def names(self) -> tuple[str, ...]:
    path = self.folder / 'names'
    if not path.exists():
      return ()
    return tuple(path.read_text(encoding='utf-8').split('\n'))

  def write(self, outcome: Outcome) -> None:
    """Writes down what became of a test, or of a part of it."""
    result = outcome.result
    with open(self.folder / 'results.jsonl', 'a', encoding='utf-8') as file:
      file.write(
          json.dumps([
              result.case, result.status.value, result.text, result.seconds,
              outcome.kind
          ]) + '\n')

  def outcomes(self) -> dict[str, Outcome]:
    """The outcome of each test, in their order."""
    outcomes: dict[str, Outcome] = {}
    for outcome in self._written():
      name = outcome.result.case
      # What fails at its end has failed, whatever it said before.
      if name not in outcomes or not outcomes[name].kind:
        outcomes[name] = outcome
    return outcomes

  def _written(self) -> Iterator[Outcome]:
    path = self.folder / 'results.jsonl'
    if path.exists():
      for line in path.read_text(encoding='utf-8').splitlines():
        name, status, text, seconds, kind = json.loads(line)
        yield Outcome(Result(name, '', Status(status), text, seconds), kind)
