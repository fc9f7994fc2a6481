"""Faults of time: memory is never free again, events come early or never, and
threads meet."""

from __future__ import annotations

from fault_rows import crashed, failed, Found, Row


def _leak(fault: str, part: str, *passes: str, number: str = '') -> Row:
  return failed(
      fault,
      f'leaks.kinds/{part}',
      ' grew by ',
      *(f'leaks.kinds/{part}' for part in passes),
      opcode=number)


_LEAKS = (
    failed('leak', 'endurance.steps', 'the heap grew by', 'caching.same'),
    failed('thread-leak', 'endurance.steps', 'the heap grew by',
           'caching.same'),
    failed('buffer-leak', 'endurance.steps', 'the heap grew by',
           'caching.same'),
    _leak('compile-leak', 'compiled', 'loaded'),
    Row('leak-of-executions',
        (Found('endurance.steps', 'the heap grew by'),
         Found('leaks.kinds/executed', 'the heap grew by'),
         Found('leaks.kinds/donated', 'the heap grew by'),
         Found('leaks.kinds/sharded', 'the heap grew by')),
        ('leaks.kinds/upload_rank_1',)),
    Row('leak-of-own-pages',
        (Found('leaks.kinds/executed', 'the process grew by'),),
        ('leaks.kinds/read',)),
    failed('leak-of-uploads', 'leaks.kinds/upload_rank_1', ' grew by ',
           'readback.fresh'),
    _leak('leak-of-reads', 'read', 'copied'),
    _leak('leak-of-copies', 'copied', 'read'),
    _leak('leak-of-deletes', 'deleted', 'upload_rank_2'),
    _leak('leak-of-callbacks', 'events', 'read'),
    _leak('leak-of-loads', 'loaded', 'queried'),
    _leak('leak-of-queries', 'queried', 'events'),
    _leak('leak-of-events', 'events', 'queried'),
    _leak('leak-of-errors', 'errors', 'read'),
    _leak('leak-of-executables', 'loaded', 'executed'),
    _leak('leak-of-one-in', 'upload_rank_3', 'read'),
    _leak('leak-of-one-in', 'executed', number='300'),
    _leak('leak-of-rank', 'upload_rank_2', 'upload_rank_1', 'upload_rank_3'),
    _leak('leak-of-rank', 'upload_rank_5', 'upload_rank_2', number='5'),
    _leak('leak-of-donated', 'donated', 'executed', 'sharded'),
    _leak('leak-of-sharded', 'sharded', 'executed', 'donated'),
    failed('leak-on-device', 'leaks.kinds/upload_rank_0',
           "the devices' memory grew by", 'leaks.kinds/read'),
    failed('leak-of-clients', 'leaks.clients', 'the heap grew by',
           'leaks.kinds/events'),
)


def _early(fault: str, *parts: str) -> Row:
  return Row(fault,
             tuple(Found(f'readiness.{part}', 'ready, by ') for part in parts),
             ('errors.asynchronous/read',))


def _lost(fault: str, found: str, *parts: str) -> Row:
  return Row(fault, tuple(Found(f'callbacks.{part}', found) for part in parts),
             ('errors.asynchronous/read',))


_EVENTS = (
    _early('early-execution', 'data/executed', 'waits/executed'),
    _early('early-buffer', 'data/result', 'data/arrived', 'data/copied',
           'waits/result', 'waits/output'),
    _early('early-read', 'data/read', 'waits/read'),
    _early('early-done', 'data/sent'),
    _early('early-await', 'data/executed', 'data/read', 'waits/result',
           'waits/read'),
    _early('early-is-ready', 'data/result', 'waits/executed'),
    _early('early-callback', 'data/copied', 'data/sent', 'waits/output'),
    _lost('callback-lost', 'was not called in 5 s', 'called/arrived',
          'failed/read'),
    _lost('callback-lost-if-ready', 'one added when it was ready',
          'called/executed', 'failed/result'),
    _lost('callback-lost-if-waiting', 'was not called in 5 s', 'called/read',
          'failed/output'),
    _lost('callback-lost-of-second', '(the second', 'called/copied',
          'failed/executed'),
    _lost('callback-lost-of-reads', 'was not called in 5 s', 'called/read'),
    _lost('callback-twice', 'was called 2 times', 'called/result',
          'failed/result'),
    _lost('callback-without-error', 'got no error', 'failed/result',
          'failed/read', 'failed/executed', 'failed/output'),
)


def _race(of: str, part: str, microseconds: int = 100) -> Row:
  """Windows so wide that they are met on a machine with other work, too."""
  return failed(
      f'race-of-{of}',
      f'races.meeting/{part}',
      'beside calls of three other threads',
      'readback.fresh',
      opcode=str(microseconds))


_RACES = (
    _race('executions', 'execute'),
    _race('uploads', 'upload'),
    _race('reads', 'read'),
    _race('compiles', 'compile', 1000),
    _race('loads', 'load', 500),
    crashed('race-of-destroys', 'races.meeting/destroy', 'caching.same'),
    _race('upload-and-destroy', 'upload'),
    _race('execute-and-upload', 'execute'),
    _race('compile-and-execute', 'compile', 1000),
    _race('load-and-execute', 'load', 500),
    _race('await-and-destroy', 'await'),
)

ROWS = (*_LEAKS, *_EVENTS, *_RACES)
