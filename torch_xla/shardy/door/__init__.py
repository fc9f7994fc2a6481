"""The door: where each program passes on its way to the backend's compiler.

`shim` is Python's side of the library that stands before the backend's plugin,
`device_plugins` puts it there, and `chain` is what a program then goes through.
"""

from __future__ import annotations

from collections.abc import Callable

from . import shim
from .chain import CompilerChain, Wrapper
from .shim import Compilation, Compiler, is_open

__all__ = [
    'Compilation', 'Compiler', 'Wrapper', 'close', 'is_open', 'use', 'wrap'
]

# The shim calls one compiler per process.
_chain = CompilerChain()


def use(compiler: Compiler) -> None:
  """Compiles each program by `compiler`.

  Raises:
    DoorError: the shim cannot be loaded.
  """
  shim.set_compiler(_chain)
  _chain.set_compiler(compiler)


def close() -> None:
  """Lets programs through as they are, past every wrapper."""
  shim.set_compiler(None)


def wrap(wrapper: Wrapper) -> Callable[[], None]:
  """Puts `wrapper` around all that programs pass by now; returns its undo.

  >>> def count(compilation, rest):
  ...   counted.append(compilation.format)
  ...   rest(compilation)
  >>> undo = door.wrap(count)

  Args:
    wrapper: called with each program and with what is behind: what it raises
      becomes the error of that compile. Nothing calls it with the mode off.

  Returns:
    Takes this wrapper out again, whatever was put around it since.
  """
  return _chain.wrap(wrapper)
