"""Small programs that come again: by their bytes, and only so many."""

import functools

from fake_backend import FakeCompilation, made_of, options_of
import pytest
from torch_xla.shardy.compile.attempt import Attempt
from torch_xla.shardy.compile.compiler import Compiler
from torch_xla.shardy.compile.ledger import Ledger
from torch_xla.shardy.compile.plan import plan_of, Surroundings
from torch_xla.shardy.errors import BackendCompileError, LayoutError
from torch_xla.shardy.hlo.compile_options import Partitioner

_LARGEST = 16 * 1024
_MOST = 64


class _Process:
  """A compiler, and a runtime that drops at once what it gets."""

  def __init__(self, promise=None, meshes=tuple):
    self.ledger = Ledger()
    plan = plan_of('m', Attempt(b'lowered', Partitioner.GSPMD, promise=promise))
    self.compiler = Compiler(lambda *_: plan, self.ledger,
                             Surroundings(meshes=meshes))
    self.compilation = functools.partial(FakeCompilation, kept=set())

  def compile(self, program: bytes = b'sent', **fields) -> FakeCompilation:
    compilation = self.compilation(program=program, **fields)
    self.compiler(compilation)
    return compilation

  def is_compiled(self, *args, **fields) -> bool:
    return bool(self.compile(*args, **fields).handed_on)


def test_the_same_program_is_compiled_once():
  process = _Process()
  first, *others = [process.compile() for _ in range(3)]
  assert len(first.handed_on) == 1 and first.answers == [made_of()]
  for again in others:
    assert not again.handed_on and again.answers == first.answers
  record, = process.ledger.programs()
  assert record.reused == 2


def test_another_program_format_or_options():
  process = _Process()
  assert process.is_compiled()
  assert process.is_compiled(b'other')
  assert process.is_compiled(program_format='mlir')
  assert process.is_compiled(options=options_of(num_partitions=4))
  assert not process.is_compiled()
  assert [p.reused for p in process.ledger.programs()] == [1, 0, 0, 0]


def test_what_the_runtime_still_has_is_compiled_again():
  process = _Process()
  assert process.is_compiled()
  assert process.is_compiled(kept=set())
  assert not process.is_compiled()
  assert [p.reused for p in process.ledger.programs()] == [0, 1]


def test_what_was_planned_with_other_meshes_is_not_handed_out():
  meshes = [()]
  process = _Process(meshes=lambda: meshes[-1])
  for had in (), (2, 4):
    meshes.append(had)
    assert process.is_compiled() and not process.is_compiled()


def test_large_programs_are_not_kept():
  process = _Process()
  for size, compiled in (_LARGEST, False), (_LARGEST + 1, True):
    assert process.is_compiled(b'a' * size)
    assert process.is_compiled(b'a' * size) is compiled


def test_the_newest_are_kept():
  process = _Process()
  first, *others = [bytes([i]) for i in range(_MOST + 1)]
  for program in first, *others:
    assert process.is_compiled(program)
  assert not process.is_compiled(others[0])
  assert process.is_compiled(first)
  assert process.is_compiled(others[1])
  assert not process.is_compiled(others[0])


@pytest.mark.parametrize('error, fields, promise', [
    (BackendCompileError, {
        'made': [BackendCompileError(3, 'no such op')]
    }, None),
    (LayoutError, {}, lambda outcome: 'it is odd'),
])
def test_what_cannot_be_used_is_asked_for_again(error, fields, promise):
  """The runtime never had it, so the shim keeps nothing."""
  process = _Process(promise)
  for _ in range(2):
    with pytest.raises(error):
      process.compile(kept=set(), **fields)
  assert len(process.ledger.programs()) == 2
