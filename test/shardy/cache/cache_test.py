"""The compilation cache's directories, without a runtime."""

import os

from caches import each_access, in_child
import pytest
from torch_xla.shardy import cache

_LIMIT = 10**6


def _open(root, readonly=False, limit=_LIMIT):
  return cache.open_directory(str(root), 'rules', readonly, limit)


@pytest.fixture
def writer(tmp_path):
  opened = _open(tmp_path)
  yield opened
  opened.close()


def _entry(opened, key):
  return os.path.join(opened.path, f'{key}.entry')


def test_what_is_stored_is_found_here_and_by_readers(tmp_path, writer):
  assert writer.get('a') is None
  assert writer.put('a', b'data')
  reader = _open(tmp_path, readonly=True)
  assert writer.get('a') == reader.get('a') == b'data'
  assert writer.report() == cache.CacheReport(loaded=1, missing=1, stored=1)
  assert reader.readonly and not writer.readonly
  assert reader.report() == cache.CacheReport(loaded=1)


def test_a_reader_never_writes(tmp_path):
  reader = _open(tmp_path / 'none', readonly=True)
  assert reader.get('a') is None
  assert not reader.put('a', b'data')
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
  writer.put('good', b'data' * 100)
  writer.put('bad', b'data' * 100)
  path = _entry(writer, 'bad')
  with open(path, 'rb') as f:
    data = f.read()
  with open(path, 'wb') as f:
    f.write(damage(data))
  reader = _open(tmp_path, readonly=True)
  for opened in (reader, writer):
    assert opened.get('bad') is None
    assert len(opened.report().damaged) == 1
    assert opened.report().damaged[0].startswith('bad: ')
    assert opened.get('good') == b'data' * 100
  assert not os.path.exists(path), 'the writer removes it'
  assert writer.put('bad', b'new')
  assert reader.get('bad') == b'new'


def test_an_entry_under_another_name_is_damaged(writer):
  writer.put('a', b'data')
  os.rename(_entry(writer, 'a'), _entry(writer, 'b'))
  assert writer.get('b') is None
  assert writer.report().damaged


def test_what_was_not_used_for_longest_is_evicted(tmp_path):
  opened = _open(tmp_path, limit=3500)
  for i, key in enumerate('abc'):
    opened.put(key, bytes(1000))
    os.utime(_entry(opened, key), (i, i))
  assert opened.get('a') is not None  # Now the youngest.
  opened.put('d', bytes(1000))
  assert [key for key in 'abcd' if os.path.exists(_entry(opened, key))
         ] == ['a', 'c', 'd']
  assert opened.report().evicted == 1
  assert not opened.put('e', bytes(4000))
  assert 'more than the limit of 3500' in opened.report().not_stored[0]
  opened.close()
  smaller = _open(tmp_path, limit=1200)
  assert smaller.report().evicted == 2
  assert sum(os.path.exists(_entry(opened, key)) for key in 'abcd') == 1
  smaller.close()


def test_a_reader_keeps_what_it_reads_while_it_is_evicted(writer):
  writer.put('a', b'data')
  with open(_entry(writer, 'a'), 'rb') as f:
    os.unlink(_entry(writer, 'a'))
    assert f.read().endswith(b'data')
  assert writer.get('a') is None
  assert not writer.report().damaged


@pytest.mark.parametrize('limit', [0, -1])
def test_a_limit_that_leaves_no_room(tmp_path, limit):
  with pytest.raises(cache.CacheError, match=f'limit_bytes={limit}'):
    _open(tmp_path, limit=limit)


@each_access
def test_a_root_that_is_a_file(tmp_path, readonly):
  file = tmp_path / 'file'
  file.write_text('')
  with pytest.raises(cache.CacheError, match='directory'):
    _open(file, readonly)


def test_a_root_that_cannot_be_written():
  # Not even root may make directories here.
  with pytest.raises(cache.CacheError, match='name a writable directory'):
    _open('/proc/self/cache')


def test_processes_that_write_at_once_lose_nothing(tmp_path):

  def store() -> None:
    opened = _open(tmp_path)
    for _ in range(10):
      for key in 'abcd':
        assert opened.put(key, key.encode() * 1000)
        assert opened.get(key) == key.encode() * 1000
    os.mkdir(tmp_path / f'{os.getpid()}')

  children = [in_child(store) for _ in range(4)]
  for child in children:
    os.waitpid(child, 0)
    assert (tmp_path / f'{child}').exists(), 'it came to its end'
  opened = _open(tmp_path)
  assert sorted(os.listdir(opened.path)) == [f'{key}.entry' for key in 'abcd']
  assert all(opened.get(key) for key in 'abcd')


def test_unfinished_entries_of_dead_processes_are_removed(tmp_path, writer):
  fresh, old = (os.path.join(writer.path, f'{n}.unfinished') for n in 'ab')
  for path in (fresh, old):
    with open(path, 'wb') as f:
      f.write(b'da')
  os.utime(old, (1, 1))
  _open(tmp_path)
  assert os.path.exists(fresh) and not os.path.exists(old)
