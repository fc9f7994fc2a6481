"""Processes racing for one compilation cache; fails if anything goes wrong.

In each round all processes want to be the writer of one directory at once.
Exactly one must become it, the others must be told who, and must find, reading
while it writes, every entry that was ever stored. Every other round's writer is
killed while it writes. Then all want a private directory at once, and must get
different ones, the same ones each round.
"""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import signal
import tempfile
import traceback
from typing import Any, Callable, Dict, Iterator, List, Optional

from torch_xla.shardy import cache

from .errors import BenchmarkError

_RULES = 'race'
_LIMIT_BYTES = 2**40
# A writer that is to be killed writes until then, but not for ever.
_STORES, _MOST_STORES, _STORES_BEFORE_KILL = 4, 2000, 3


@dataclasses.dataclass
class Tally:
  """Counts of all rounds."""
  refused: int = 0
  killed: int = 0
  taken_over: int = 0
  stored: int = 0
  read: int = 0
  unfinished_removed: int = 0


def race(root: str,
         rounds: int,
         processes: int,
         say: Callable[[str], None] = lambda line: None) -> Tally:
  """Runs the race in `root`, which must be empty; forks, so no runtime yet.

  Raises:
    BenchmarkError: two writers, none, a wrong holder, a lost or damaged entry.
  """
  stored: List[str] = []
  tally, killed = Tally(), None
  for number in range(rounds):
    killed = _writer_round(root, number, processes, killed, stored, tally)
    _private_round(root, processes)
    tally.stored = len(stored)
    if number % 10 == 9:
      say(f'round {number + 1} of {rounds}: {tally}')
  _expect(_read(root, stored) == len(stored), 'entries are lost at the end')
  return tally


def _writer_round(root: str, number: int, processes: int, killed: Optional[int],
                  stored: List[str], tally: Tally) -> Optional[int]:
  """The pid of the writer if it was killed; adds to `stored` and `tally`."""
  kill = number % 2 == 1

  def child(tell: Callable, finish: Callable) -> None:
    try:
      mine = cache.open_directory(root, _RULES, cache.Sharing.WRITER,
                                  _LIMIT_BYTES)
    except cache.CacheInUseError as e:
      tell(refused_by=e.holder.pid if e.holder else None)
      tell(read=_read(root, stored))
      return
    tell(
        writer=mine.taken_over.pid if mine.taken_over else None,
        unfinished=len(mine.report().damaged))
    for i in range(_MOST_STORES if kill else _STORES):
      key = f'{number}-{i}'
      if mine.store.put(key, _data(key)):
        tell(stored=key)
    finish()
    mine.close()

  with _children(processes, child) as (pids, hear, let_finish):
    lines: List[Dict[str, Any]] = []

    def having(name: str) -> List[Dict[str, Any]]:
      return [line for line in lines if name in line]

    while not (len(having('read')) == processes - 1 and
               len(having('stored')) >= _STORES_BEFORE_KILL):
      line = hear()
      _expect(line is not None, f'no writer in round {number}')
      lines.append(line)
      writers = having('writer')
      _expect(len(writers) <= 1, f'{len(writers)} writers in round {number}')
    writer = writers[0]['pid']
    if kill:
      os.kill(writer, signal.SIGKILL)
    else:
      let_finish()
    while (line := hear()) is not None:  # To the end of the last process.
      lines.append(line)
  _expect(writers[0]['writer'] == killed,
          f'took over {writers[0]["writer"]} after {killed} was killed')
  for line in having('refused_by'):
    _expect(line['refused_by'] == writer,
            f'{line["refused_by"]} named as the holder, which is {writer}')
  for line in having('read'):
    _expect(line['read'] == len(stored),
            f'{len(stored)} entries stored, {line["read"]} found')
  tally.refused += len(having('refused_by'))
  tally.read += len(stored) * (processes - 1)
  tally.unfinished_removed += writers[0]['unfinished']
  tally.taken_over += killed is not None
  tally.killed += kill
  stored += [line['stored'] for line in having('stored')]
  return writer if kill else None


def _private_round(root: str, processes: int) -> None:

  def child(tell: Callable, finish: Callable) -> None:
    mine = cache.open_directory(root, _RULES, cache.Sharing.PRIVATE,
                                _LIMIT_BYTES)
    tell(path=mine.path)
    finish()
    mine.close()

  with _children(processes, child) as (pids, hear, let_finish):
    slots = sorted(
        int(hear()['path'].rpartition('-')[2]) for _ in range(processes))
    for pid in pids[::2]:
      os.kill(pid, signal.SIGKILL)
    let_finish()
  _expect(slots == list(range(processes)), f'private directories {slots}')


@contextlib.contextmanager
def _children(processes: int, body: Callable) -> Iterator[tuple]:
  """Forks processes that run `body` once all are there.

  `body(tell, finish)`: `tell(**values)` reaches the parent's `hear()`, which
  gives None when all have ended; `finish()` waits for the parent.
  """
  start, go = os.pipe()
  end, let_end = os.pipe()
  heard, speak = os.pipe()
  pids = []
  for _ in range(processes):
    pid = os.fork()
    if pid == 0:
      try:
        os.close(go)
        os.close(let_end)
        logging.disable()  # Takeovers are expected here.

        def tell(**values):
          # Short enough to be written at once, whoever else writes.
          os.write(speak,
                   json.dumps({
                       'pid': os.getpid(),
                       **values
                   }).encode() + b'\n')

        os.read(start, 1)
        body(tell, lambda: os.read(end, 1))
      except BaseException:  # pylint: disable=broad-except
        tell(error=traceback.format_exc(limit=-3))
      finally:
        os._exit(0)
    pids.append(pid)
  for file in (start, end, speak):
    os.close(file)
  with os.fdopen(heard) as lines:

    def hear() -> Optional[Dict[str, Any]]:
      line = lines.readline()
      report = json.loads(line) if line else None
      _expect(report is None or 'error' not in report, str(report))
      return report

    opened = [go, let_end]

    def let_finish() -> None:
      os.close(opened.pop())

    os.close(go)
    opened.remove(go)
    try:
      yield pids, hear, let_finish
    finally:
      for file in opened:
        os.close(file)
      for pid in pids:
        os.waitpid(pid, 0)


def _data(key: str) -> bytes:
  return hashlib.sha256(key.encode()).digest() * 4000


def _read(root: str, keys: List[str]) -> int:
  """How many of `keys` a reader finds with the right data."""
  reader = cache.open_directory(root, _RULES, cache.Sharing.READER,
                                _LIMIT_BYTES)
  return sum(reader.store.get(key) == _data(key) for key in keys)


def _expect(what: bool, otherwise: str) -> None:
  if not what:
    raise BenchmarkError(otherwise)


if __name__ == '__main__':
  with tempfile.TemporaryDirectory() as folder:
    print(race(folder, rounds=100, processes=8, say=print))
