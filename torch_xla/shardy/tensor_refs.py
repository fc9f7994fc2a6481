"""Weak references to tensors, which `torch.utils.swap_tensors` may swap.

It refuses a tensor that has a weak reference, as whoever holds that may mean
the content. What is kept here belongs to the tensor object, as its name does.
"""

from __future__ import annotations

from collections.abc import Callable
import types
from typing import Any, TYPE_CHECKING
import weakref

from torch.utils.weak import WeakIdKeyDictionary, WeakIdRef

if TYPE_CHECKING:
  TensorRef = weakref.ref
else:

  class TensorRef(WeakIdRef):
    """A weak reference to a tensor, that C++ may be the only one to hold."""
    __slots__ = ()


def tensor_dict(entries: Any = None) -> Any:
  """A dictionary by tensor object, which keeps none alive."""
  return WeakIdKeyDictionary(entries, TensorRef)


def permitting_refs(swap_tensors: Callable[..., None]) -> Callable[..., None]:
  """The function of torch, which overlooks these references."""

  def others(t: Any) -> list[Any]:
    return [ref for ref in weakref.getweakrefs(t) if type(ref) is not TensorRef]

  return types.FunctionType(
      swap_tensors.__code__, {
          **swap_tensors.__globals__, 'weakref':
              types.SimpleNamespace(getweakrefs=others)
      })
