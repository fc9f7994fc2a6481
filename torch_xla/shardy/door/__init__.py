"""The door: where each program passes on its way to the backend's compiler.

`shim` is Python's side of the library that stands before the backend's plugin,
`device_plugins` puts it there, and a program then goes through `CompilerChain`.
"""

from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Optional

from . import shim
from ..errors import DoorError
from ..mode import current_mode, Mode
from .shim import Compilation, Compiler, is_open

__all__ = [
    'Compilation', 'Compiler', 'Wrapper', 'check_door', 'check_runtime',
    'close', 'is_open', 'use', 'wrap'
]

# Gets each program and what comes behind it, which it may call with the same
# compilation, with one of its own making, or not at all.
Wrapper = Callable[[Compilation, Compiler], None]


class CompilerChain:
  """One compiler and wrappers around it; a compiler itself.

  A program goes through the chain as it was when the program arrived.
  """

  def __init__(self):
    self._lock = threading.Lock()
    self._compiler: Optional[Compiler] = None
    self._wrappers: tuple[Wrapper, ...] = ()  # From the outermost.

  def set_compiler(self, compiler: Optional[Compiler]) -> None:
    """Sets what is inside of all wrappers; None hands programs through."""
    self._compiler = compiler

  def wrap(self, wrapper: Wrapper) -> Callable[[], None]:
    """Puts `wrapper` around all that is there, and returns its undo.

    The undo takes this wrapper out, wherever it stands by then, and leaves the
    others; a second call does nothing.
    """
    link = lambda compilation, rest: wrapper(compilation, rest)
    with self._lock:
      self._wrappers = (link, *self._wrappers)

    def undo() -> None:
      with self._lock:
        self._wrappers = tuple(w for w in self._wrappers if w is not link)

    return undo

  def __call__(self, compilation: Compilation) -> None:
    _pass_on(self._wrappers, self._compiler or _hand_through, compilation)


def _pass_on(wrappers: tuple[Wrapper, ...], compiler: Compiler,
             compilation: Compilation) -> None:
  if wrappers:
    first, *others = wrappers
    first(compilation, lambda c: _pass_on(tuple(others), compiler, c))
  else:
    compiler(compilation)


def _hand_through(compilation: Compilation) -> None:
  compilation.compile(compilation.program, compilation.options)


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


def check_door() -> None:
  """Checks that programs pass the door."""
  if current_mode() is Mode.OFF:
    raise DoorError(
        'programs are only recorded with the mode on: set XLA_USE_SHARDY=1 or '
        'XLA_SHARDING_V2=1 before torch_xla is imported')
  check_runtime()


def check_runtime() -> None:
  """Checks that the runtime came up with the door if the mode is on."""
  import torch_xla
  if torch_xla._XLAC._xla_runtime_is_initialized() and not is_open():
    raise DoorError(
        f'mode {current_mode().value!r} is on but the runtime came up without '
        'the door: PJRT_DEVICE was changed after torch_xla was imported; set '
        'it before, or call torch_xla.runtime.set_device_type')
