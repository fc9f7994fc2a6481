"""Notes where a process first asked for an XLA device and made a tensor.

Nothing is installed unless tracking is asked for. Then the functions through
which Python reaches a device are wrapped until the first tensor exists, and put
back as they were: what runs after that costs what it did without tracking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
import functools
import os
import threading
import traceback
from typing import Any, Optional

import torch
import torch_xla
import torch_xla.debug.metrics as metrics

from .variables import Moment

# The functions of `_XLAC` that start the runtime; torch_xla's own Python looks
# them up at each call.
_RUNTIME_FUNCTIONS = (
    '_init_computation_client',
    '_xla_get_all_devices',
    '_xla_get_all_runtime_devices',
    '_xla_get_default_device',
    '_xla_get_default_device_ordinal',
    '_xla_get_devices',
    '_xla_get_runtime_devices',
    '_xla_num_devices',
    '_xla_num_runtime_devices',
    '_xla_real_devices',
    '_xla_set_default_device',
    '_xla_tensors_from_aten',
)
# What makes a tensor on a device that it is told, as torch documents it.
_FACTORIES = ('arange', 'as_tensor', 'asarray', 'empty', 'empty_like',
              'empty_strided', 'eye', 'full', 'full_like', 'linspace',
              'logspace', 'ones', 'ones_like', 'rand', 'rand_like', 'randint',
              'randn', 'randn_like', 'randperm', 'scalar_tensor', 'tensor',
              'zeros', 'zeros_like')
_METHODS = ('new_empty', 'new_full', 'new_ones', 'new_tensor', 'new_zeros',
            'to')
_LIBRARIES = tuple(
    os.path.dirname(module.__file__) + os.sep for module in (torch, torch_xla))


def tensors_made() -> int:
  """The number of XLA tensors that this process made; starts no runtime."""
  return metrics.counter_value('CreateXlaTensor') or 0


class Tracker:
  """Watches for the first device and the first tensor.

  Attributes:
    device: where torch_xla settled on SPMD or not, which it does when a device
      is first asked for (counting devices is not asking); None before.
    tensor: where the first tensor was made, once it was.
    environments: the environment as it was when watching began (IMPORT), when
      the runtime was first seen to be up, and at the first tensor.
  """

  def __init__(self):
    self.device: Optional[str] = None
    self.tensor: Optional[str] = None
    self.environments = {Moment.IMPORT: dict(os.environ)}
    # Tensors that the doctor made, and is not to blame anyone for.
    self.ignored = 0
    self._lock = threading.Lock()
    self._undo: list[Callable[[], None]] = []
    for owner, names in ((torch_xla._XLAC, _RUNTIME_FUNCTIONS),
                         (torch, _FACTORIES), (torch.Tensor, _METHODS)):
      for name in names:
        self._wrap(owner, name)

  def _wrap(self, owner: Any, name: str) -> None:
    original = getattr(owner, name)
    inherited = name not in vars(owner)

    @functools.wraps(original)
    def watched(*args, **kwargs):
      try:
        return original(*args, **kwargs)
      finally:
        self._look()

    def undo():
      if vars(owner).get(name) is not watched:
        return  # Someone wrapped it in turn; it goes on to the original.
      if inherited:
        delattr(owner, name)
      else:
        setattr(owner, name, original)

    setattr(owner, name, watched)
    self._undo.append(undo)

  def _look(self) -> None:
    if self.tensor is not None:
      return
    xlac = torch_xla._XLAC
    with self._lock:
      if xlac._xla_runtime_is_initialized():
        self.environments.setdefault(Moment.RUNTIME, dict(os.environ))
      if self.device is None and xlac._xla_get_spmd_config_is_locked():
        self.device = _here()
      if self.tensor is None and tensors_made() > self.ignored:
        self.tensor = _here()
        self.environments[Moment.TENSOR] = dict(os.environ)
        self.stop()

  def stop(self) -> None:
    """Puts every function back; what was found stays."""
    for undo in self._undo:
      undo()
    self._undo.clear()


def _here() -> str:
  """The innermost line that is neither torch's nor torch_xla's: 'a.py:3: x()'.
  """
  stack = [
      f for f in traceback.extract_stack()
      if os.path.dirname(f.filename) != os.path.dirname(__file__)
  ]
  users = [f for f in stack if not f.filename.startswith(_LIBRARIES)]
  frame = (users or stack)[-1]
  return f'{frame.filename}:{frame.lineno}: {frame.line}'


_tracker: Optional[Tracker] = None


def track_first_tensor() -> None:
  """Records for `check()` where the first XLA tensor is made.

  To be called right after `import torch_xla`; a second call does nothing. A
  tensor that C++ makes without Python is placed at the next call that is seen.
  """
  global _tracker
  if _tracker is not None:
    return
  if torch_xla._XLAC._xla_runtime_is_initialized() or tensors_made():
    raise RuntimeError(
        'XLA is already in use, so where that began cannot be found any more; '
        'call track_first_tensor() right after importing torch_xla')
  _tracker = Tracker()


def tracker() -> Optional[Tracker]:
  """The tracker of this process; None if tracking was never asked for."""
  return _tracker


@contextlib.contextmanager
def unseen() -> Iterator[None]:
  """Keeps tensors made in the block from being tracked as the first."""
  before = tensors_made()
  try:
    yield
  finally:
    if _tracker is not None:
      _tracker.ignored += tensors_made() - before
