"""The chain of compilers: who gets a program, and in which order."""

import pytest
from torch_xla.shardy.door import CompilerChain


class _Compilation:
  """A program on its way, and what it passed."""

  def __init__(self, program: bytes = b'program', options: bytes = b'options'):
    self.program = program
    self.options = options
    self.passed = []

  def compile(self, program: bytes, options: bytes) -> None:
    self.passed.append((program, options))


def _compiler(name: str = 'compiler'):
  return lambda compilation: compilation.passed.append(name)


def _wrapper(name: str):

  def wrapper(compilation, rest):
    compilation.passed.append(f'{name} in')
    rest(compilation)
    compilation.passed.append(f'{name} out')

  return wrapper


def _chain(*wrappers, compiler=None) -> CompilerChain:
  """From the innermost wrapper."""
  chain = CompilerChain()
  chain.set_compiler(compiler or _compiler())
  for wrapper in wrappers:
    chain.wrap(wrapper)
  return chain


def _passed(chain: CompilerChain) -> list:
  compilation = _Compilation()
  chain(compilation)
  return compilation.passed


def test_the_last_wrapper_is_the_outermost():
  assert _passed(
      _chain(_wrapper('a'),
             _wrapper('b'))) == ['b in', 'a in', 'compiler', 'a out', 'b out']


def test_without_a_compiler_programs_are_handed_through():
  chain = CompilerChain()
  assert _passed(chain) == [(b'program', b'options')]
  chain.wrap(_wrapper('a'))
  assert _passed(chain) == ['a in', (b'program', b'options'), 'a out']
  chain.set_compiler(_compiler())
  assert _passed(chain) == ['a in', 'compiler', 'a out']
  chain.set_compiler(None)
  assert _passed(chain) == ['a in', (b'program', b'options'), 'a out']


@pytest.mark.parametrize('order', ['abc', 'cba', 'bca'])
def test_undo_in_any_order(order):
  chain = _chain()
  undo = {name: chain.wrap(_wrapper(name)) for name in 'abc'}
  left = ['c', 'b', 'a']
  for name in order:
    undo[name]()
    left.remove(name)
    assert _passed(chain) == [
        *(f'{n} in' for n in left), 'compiler',
        *(f'{n} out' for n in reversed(left))
    ]


def test_a_wrapper_put_in_twice_is_taken_out_once():
  """Each undo is of its own place, whoever else uses the same function."""
  chain, wrapper = _chain(), _wrapper('a')
  first = chain.wrap(wrapper)
  chain.wrap(_wrapper('b'))
  chain.wrap(wrapper)
  first()
  first()
  assert _passed(chain) == ['a in', 'b in', 'compiler', 'b out', 'a out']


def test_a_wrapper_that_does_not_go_on_replaces_what_is_behind():
  chain = _chain(
      _wrapper('behind'),
      lambda compilation, rest: compilation.passed.append('instead'),
      _wrapper('before'))
  assert _passed(chain) == ['before in', 'instead', 'before out']


def test_a_wrapper_that_passes_on_another_compilation():
  other = _Compilation(b'other')
  chain = _chain(
      _wrapper('behind'), lambda compilation, rest: rest(other),
      _wrapper('before'))
  assert _passed(chain) == ['before in', 'before out']
  assert other.passed == ['behind in', 'compiler', 'behind out']


def test_an_exception_goes_through_and_may_be_caught():

  def fail(compilation):
    raise KeyError(compilation.program)

  def catch(compilation, rest):
    with pytest.raises(KeyError):
      rest(compilation)
    compilation.passed.append('caught')

  chain = _chain(_wrapper('a'), compiler=fail)
  compilation = _Compilation()
  with pytest.raises(KeyError, match='program'):
    chain(compilation)
  assert compilation.passed == ['a in']
  undo = chain.wrap(catch)
  assert _passed(chain) == ['a in', 'caught']
  undo()
  chain.set_compiler(_compiler())
  assert _passed(chain) == ['a in', 'compiler', 'a out']


def test_changes_while_a_program_is_on_its_way_are_for_the_next():
  """It goes through the chain as that was when it arrived."""
  chain = _chain()
  undo_inner = chain.wrap(_wrapper('inner'))

  def change(compilation, rest):
    undo_change()
    undo_inner()
    chain.wrap(_wrapper('new'))
    chain.set_compiler(_compiler('another'))
    rest(compilation)

  undo_change = chain.wrap(change)
  assert _passed(chain) == ['inner in', 'compiler', 'inner out']
  assert _passed(chain) == ['new in', 'another', 'new out']
