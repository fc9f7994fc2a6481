"""Faults that show by and by: what is never given back, what comes too early or
never, and what goes wrong when two threads meet."""

from __future__ import annotations

from fault_rows import crashed, failed, Found, Row


def _leak(fault: str, part: str, *passes: str, number: str = '') -> Row:
  return failed(
      fault, f'leaks.kinds/{part}', ' grew by ',
      *(f'leaks.kinds/{part}' for part in passes), opcode=number)


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
    _leak('leak-of-uploads', 'upload_rank_1', 'events'),
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


def _early(fault: str, *parts: str, passes: str = 'data/sent') -> Row:
  return Row(
      fault,
      tuple(Found(f'readiness.{part}', 'ready, by ') for part in parts),
      (f'readiness.{passes}',))


_EVENTS = (
    _early('early-execution', 'data/executed', 'waits/executed'),
    _early('early-buffer', 'data/result', 'data/arrived', 'data/copied',
           'waits/result', 'waits/output'),
    _early('early-read', 'data/read', 'waits/read', passes='data/executed'),
    _early('early-done', 'data/sent', passes='data/executed'),
    _early('early-await', 'data/executed', 'data/result', 'data/copied',
           'waits/result', 'waits/read', 'waits/executed', 'waits/output',
           passes='data/arrived'),
)
