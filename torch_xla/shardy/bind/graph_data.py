"""The data that a pending graph starts from, read from the graph's nodes.

`_XLAC` hands out new tensors of such data, and these take it from the tensors
whose data it is: no sync would donate it any more. So the nodes are walked as
torch walks them. A node of data, as `_XLAC` 2.9 has it, holds the data's address
at its end; that is tried once, on data whose address is known.
"""

from __future__ import annotations

from collections.abc import Sequence
import ctypes
import functools

import torch
import torch_xla

from . import usage

_POST_ORDER = ('_ZN5torch4lazy4Util16ComputePostOrderEN3c108ArrayRefIPKNS0_4'
               'NodeEEE')
_HASHED_POST_ORDER = ('_ZN5torch4lazy17LazyGraphExecutor12RunPostOrderERKSt6'
                      'vectorINS0_5ValueESaIS3_EEPNS1_20SyncTensorCollectionE')
_DATA_IN_NODE = 616  # Bytes.


@functools.cache
def is_in_hash() -> bool:
  """Tests whether a graph's hash covers which data is whose operand.

  It does with libgraph_identity.so, which comes before torch for `_XLAC`.
  """
  try:
    addresses = {
        ctypes.cast(library[_HASHED_POST_ORDER], ctypes.c_void_p).value
        for library in (ctypes.CDLL(None), ctypes.CDLL('libtorch_cpu.so'))
    }
  except (AttributeError, OSError):
    return False
  return len(addresses) > 1


class GraphDataError(RuntimeError):
  """Another torch or `_XLAC`, whose graphs are not as they are in 2.9."""


class GraphData:
  """Tells data by its address.

  Raises:
    GraphDataError: graphs are otherwise.
  """

  def __init__(self) -> None:
    try:
      # With Python's lock held: no thread is to change a graph meanwhile.
      self._post_order = ctypes.PyDLL('libtorch_cpu.so')[_POST_ORDER]
      self._delete = ctypes.PyDLL('libstdc++.so.6')['_ZdlPv']
    except (AttributeError, OSError) as e:
      raise GraphDataError(str(e)) from e
    self._post_order.restype = self._delete.restype = None
    known = usage.another(False)
    usage.forget_use_now([known])
    data, _ = _address(known)
    usage.ask(known)
    node, _ = _address(known)
    self._kind = _word(node)
    if _word(node + _DATA_IN_NODE) != data:
      raise GraphDataError('_XLAC is none of 2.9')

  def address_of(self, t: torch.Tensor) -> int:
    """The address of a tensor's data; of no data if it is pending."""
    address, is_node = _address(t)
    return self._data_of_node(address) if is_node else address

  def data_below(self, pending: Sequence[torch.Tensor]) -> dict[int, int]:
    """The data that these are computed from, with its place in the graph.

    The places are the same wherever the graph is.
    """
    roots = [_address(t)[0] for t in pending]
    vector = (ctypes.c_uint64 * 3)()  # The begin, the end, the allocated end.
    self._post_order(vector, (ctypes.c_uint64 * len(roots))(*roots),
                     ctypes.c_size_t(len(roots)))
    begin, end, _ = vector
    nodes = (ctypes.c_uint64 * ((end - begin) // 8)).from_address(begin)
    places: dict[int, int] = {}
    for node in nodes:
      if data := self._data_of_node(node):
        places.setdefault(data, len(places))
    self._delete(ctypes.c_void_p(begin))
    return places

  def _data_of_node(self, node: int) -> int:
    return _word(node + _DATA_IN_NODE) if _word(node) == self._kind else 0


@functools.cache
def graph_data() -> GraphData:
  """The reader of graphs of this process."""
  return GraphData()


def _address(t: torch.Tensor) -> tuple[int, bool]:
  """Where the node of a tensor is, or its data, and whether it is a node."""
  address, *index = torch_xla._XLAC._unique_id_for_ir_and_data(t).split(',')
  return int(address), bool(index)


def _word(address: int) -> int:
  return ctypes.c_uint64.from_address(address).value
