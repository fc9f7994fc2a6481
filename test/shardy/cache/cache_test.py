"""The compilation cache's directories, without a runtime."""

import dataclasses
import json
import os
import signal

from caches import in_child
import pytest
from torch_xla.shardy import cache
from torch_xla.shardy.cache import Sharing
from torch_xla.shardy.cache.lock import this_process

_LIMIT = 10**6


def _open(root, share=Sharing.WRITER, limit=_LIMIT):
  return cache.open_directory(str(root), 'rules', share, limit)


@pytest.fixture
def writer(tmp_path):
  opened = _open(tmp_path)
  yield opened
  opened.close()


def _entry(opened, key):
  return os.path.join(opened.path, f'{key}.entry')


def test_what_is_stored_is_found_here_and_by_readers(tmp_path, writer):
  assert writer.store.get('a') is None
  assert writer.store.put('a', b'data')
  reader = _open(tmp_path, Sharing.READER)
  assert writer.store.get('a') == reader.store.get('a') == b'data'
  assert writer.report() == cache.CacheReport(loaded=1, missing=1, stored=1)
  assert reader.readonly and not writer.readonly
  assert reader.report() == cache.CacheReport(loaded=1)


def test_a_reader_finds_the_directory_that_takes_its_place(tmp_path):
  root = tmp_path / 'cache'
  first = _open(root)
  reader = _open(root, Sharing.READER)
  first.close()
  os.rename(root, tmp_path / 'old')
  second = _open(root)
  second.store.put('a', b'data')
  assert reader.store.get('a') is None
  assert reader.store.get('a') == b'data'
  second.close()


def test_a_reader_never_writes(tmp_path):
  reader = _open(tmp_path / 'none', Sharing.READER)
  assert reader.store.get('a') is None
  assert not reader.store.put('a', b'data')
  with pytest.raises(cache.CacheError, match='for reading only'):
    reader.evict()
  assert not os.path.exists(tmp_path / 'none')


def _truncate(data):
  return data[:-1]


def _flip(data):
  return data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]


@pytest.mark.parametrize('damage', [
    _truncate, _flip, lambda data: b'', lambda data: os.urandom(len(data)),
    lambda data: data[:20], lambda data: data + b'x'
])
def test_damaged_entries_are_skipped_reported_and_replaced(
    tmp_path, writer, damage):
  writer.store.put('good', b'data' * 100)
  writer.store.put('bad', b'data' * 100)
  path = _entry(writer, 'bad')
  with open(path, 'rb') as f:
    data = f.read()
  with open(path, 'wb') as f:
    f.write(damage(data))
  reader = _open(tmp_path, Sharing.READER)
  for opened in (reader, writer):
    assert opened.store.get('bad') is None
    assert len(opened.report().damaged) == 1
    assert opened.report().damaged[0].startswith('bad: ')
    assert opened.store.get('good') == b'data' * 100
  assert not os.path.exists(path), 'the writer moves it aside'
  assert writer.store.put('bad', b'new')
  assert reader.store.get('bad') == b'new'


def test_an_entry_under_another_name_is_damaged(writer):
  writer.store.put('a', b'data')
  os.rename(_entry(writer, 'a'), _entry(writer, 'b'))
  assert writer.store.get('b') is None
  assert writer.report().damaged


def test_what_was_not_used_for_longest_is_evicted(tmp_path):
  opened = _open(tmp_path, limit=3500)
  for i, key in enumerate('abc'):
    opened.store.put(key, bytes(1000))
    os.utime(_entry(opened, key), (i, i))
  assert opened.store.get('a') is not None  # Now the youngest.
  opened.store.put('d', bytes(1000))
  assert [key for key in 'abcd' if os.path.exists(_entry(opened, key))
         ] == ['a', 'c', 'd']
  assert opened.report().evicted == 1
  assert not opened.store.put('e', bytes(4000))
  assert 'more than the limit of 3500' in opened.report().not_stored[0]
  opened.close()
  smaller = _open(tmp_path, limit=1200)
  assert smaller.report().evicted == 2
  assert sum(os.path.exists(_entry(opened, key)) for key in 'abcd') == 1
  smaller.close()


def test_a_reader_keeps_what_it_reads_while_it_is_evicted(writer):
  writer.store.put('a', b'data')
  with open(_entry(writer, 'a'), 'rb') as f:
    os.unlink(_entry(writer, 'a'))
    assert f.read().endswith(b'data')
  assert writer.store.get('a') is None
  assert not writer.report().damaged


@pytest.mark.parametrize('share', [Sharing.PRIVATE, Sharing.WRITER])
def test_a_root_that_cannot_be_written(share):
  # Not even root may make directories here.
  with pytest.raises(cache.CacheError, match='name a writable directory'):
    _open('/proc/self/cache', share)


def test_private_directories_differ_and_are_used_again(tmp_path):
  first, second = (_open(tmp_path, Sharing.PRIVATE) for _ in range(2))
  assert first.path != second.path
  first.store.put('a', b'data')
  first.close()
  again = _open(tmp_path, Sharing.PRIVATE)
  assert again.path == first.path
  assert again.store.get('a') == b'data'
  assert again.taken_over is None
  for opened in (second, again):
    opened.close()


def test_a_second_writer_is_refused_with_the_holder_named(tmp_path, writer):
  del writer
  me = this_process()
  with pytest.raises(cache.CacheInUseError) as error:
    _open(tmp_path)
  holder = error.value.holder
  assert (holder.host, holder.pid, holder.started) == (me.host, me.pid,
                                                       me.started)
  assert f'process {me.pid} on host {me.host}, since 2' in str(error.value)


def _leave_behind(tmp_path, **changes):
  """The lock file of a writer that died; its path."""
  opened = _open(tmp_path)
  opened.close()
  path = os.path.join(opened.path, 'lock')
  with open(path, 'w') as f:
    json.dump({**dataclasses.asdict(this_process()), **changes}, f)
  return path


@pytest.mark.parametrize('changes', [{
    'pid': 2**22 + 1
}, {
    'started': 1
}, {
    'boot': 'before'
}, {
    'host': 'renamed'
}])
def test_a_dead_writer_is_taken_over_and_reported(tmp_path, changes):
  _leave_behind(tmp_path, **changes)
  opened = _open(tmp_path)
  name, value = next(iter(changes.items()))
  assert getattr(opened.taken_over, name) == value
  opened.close()


def test_a_writer_of_another_host_cannot_be_judged(tmp_path):
  path = _leave_behind(tmp_path, host='elsewhere', boot='other', pid=7)
  for _ in range(2):
    with pytest.raises(cache.CacheInUseError) as error:
      _open(tmp_path)
    assert 'process 7 on host elsewhere' in str(error.value)
    assert f'delete {path}' in str(error.value)
  os.unlink(path)
  _open(tmp_path).close()


def test_a_forked_child_neither_writes_nor_keeps_the_lock(tmp_path):
  opened = _open(tmp_path)
  done, let_end = os.pipe()
  told, tell = os.pipe()

  def store() -> None:
    os.close(let_end)
    os.write(tell, b'stored' if opened.store.put('a', b'data') else b'refused')
    os.read(done, 1)

  child = in_child(store)
  assert os.read(told, 100) == b'refused'
  opened.close()
  _open(tmp_path).close()  # While the child lives.
  os.close(let_end)
  os.waitpid(child, 0)
  for file in (done, told, tell):
    os.close(file)


def test_half_written_entries_of_a_killed_writer_are_removed(tmp_path):

  def die_writing() -> None:
    opened = _open(tmp_path)
    opened.store.put('whole', b'data')
    with open(os.path.join(opened.path, 'half.unfinished'), 'wb') as f:
      f.write(b'da')
    os.kill(os.getpid(), signal.SIGKILL)

  child = in_child(die_writing)
  os.waitpid(child, 0)
  opened = _open(tmp_path)
  assert opened.taken_over.pid == child
  assert opened.report().damaged == ('half: its writer died while writing it',)
  assert opened.store.get('whole') == b'data'
  assert sorted(os.listdir(opened.path)) == ['lock', 'whole.entry']
  opened.close()
