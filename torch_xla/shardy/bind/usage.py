"""Which data the pending graphs start from, asked of the data.

`_XLAC` walks a graph from its results, and Python cannot list the results that
only C++ holds. But data gets a node in the graph when an operation first asks
for its value, and keeps both. `_unique_id_for_ir_and_data` tells them apart:

    w = ...; torch_xla.sync()   '139902251646944'     data, no node
    y = w * 2                   '93905568845648, 0'   data, and a node
    del y                       the same: somebody asked

To give it to itself as its data drops the data and keeps the node. From a node
of data the next sync makes data without a node, as does hashing a graph: no
program runs and nothing moves.

So this follows what was traced, and neither how long anything lives nor when
garbage is collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import functools
import os
from typing import Optional

import torch
import torch_xla

# As torch has it: not the attribute that is patched (`copies`).
_set_data = torch._C.TensorBase.data.__set__


def is_used(t: torch.Tensor) -> bool:
  """Tests whether anything asked for the value since it was forgotten.

  True also of a value that is yet to be computed, and of a clone that shares
  the data of another tensor until the next sync.
  """
  return ',' in torch_xla._XLAC._unique_id_for_ir_and_data(t)


def twin_of(t: torch.Tensor) -> torch.Tensor:
  """A twin that is the same tensor to the runtime.

  Not to autograd: its version does not change what is saved for a backward.
  """
  return t.data


def probe_shared(t: torch.Tensor) -> bool:
  """Probes whether its data is that of a tensor that it clones. Slow.

  Args:
    t: something asked for its value, and has the node that it got.
  """
  if not _has_node_alone(t):
    return False
  before = another(t.is_inference())
  _set_data(before, t)
  _materialise_nodes([t])  # Leaves clones as they are.
  if _has_node_alone(t):
    return True
  _set_data(t, before)
  return False


def _has_node_alone(t: torch.Tensor) -> bool:
  return 'XLAData: None' in torch_xla._XLAC._get_xla_tensor_debug_info(t)


def forget_use(tensors: Iterable[torch.Tensor]) -> None:
  """Forgets, with the next sync, that anything asked for these values.

  Args:
    tensors: none pending, each with data of its own: a clone must not lose that
      it is one.
  """
  for t in tensors:
    _set_data(t, t)


def forget_use_now(tensors: Sequence[torch.Tensor]) -> None:
  """Like forget_use, but takes effect immediately instead of at the next sync."""
  forget_use(tensors)
  _materialise_nodes(tensors)


def has_data(t: torch.Tensor) -> bool:
  """Tests whether the data still exists: a program may have taken it. Slow.

  Args:
    t: has a sharding; is not pending.
  """
  # It looks at data that a device may still compute, and would end the process.
  torch_xla._XLAC._xla_wait_device_ops([])
  try:
    torch_xla._XLAC._get_local_shard_replica_and_indices([t])
    return True
  except RuntimeError:
    return False


def aliases_of(
    pairs: Sequence[tuple[torch.Tensor, Optional[torch.Tensor]]]
) -> list[torch.Tensor]:
  """For each tensor an alias of its data, which no update of it reaches.

  All have data of their own, also if a device still computes it: nothing here
  looks at it. Nothing has asked for their values then; a second one has a node
  all the same, so that asking for its value changes nothing.

  Args:
    pairs: tensors, and the aliases of the data that they had before.
  """
  tensors = [t for t, _ in pairs]
  aliases = [
      another(t.is_inference()) if alias is None else alias
      for t, alias in pairs
  ]
  for alias, t in zip(aliases, tensors, strict=True):
    _set_data(alias, t)
  forget_use(tensors)
  # The data then has the ids of the second ones, which settle last.
  _materialise_nodes([*tensors, *aliases])
  for alias in aliases:
    ask(alias)
  return aliases


def was_used(t: torch.Tensor, alias: torch.Tensor) -> bool:
  """Tests whether anything asked for the data that `t` had, and it exists.

  The data has the id of the tensor that asked for it last.

  Args:
    t: was updated.
    alias: of the same data, before that; no device computes it.
  """
  try:
    ids, _ = torch_xla._XLAC._get_tensors_xla_device_data_node([alias],
                                                               [alias, t])
  except RuntimeError:
    return False
  return bool(ids == [torch_xla._XLAC._xla_get_tensor_id(t)])


def _materialise_nodes(tensors: Sequence[torch.Tensor]) -> None:
  """Materialises nodes as a sync begins; nothing is hashed or executed then.

  Where the runtime saves each graph, for people to look at, it cannot hash one
  of data alone: then it waits for the devices.
  """
  if not tensors:
    return
  if os.environ.get('XLA_SAVE_TENSORS_FILE'):
    torch_xla._XLAC._xla_sync_multi(list(tensors), [], True, True)
  else:
    torch_xla._XLAC._get_graph_hash(list(tensors))


def ask(t: torch.Tensor) -> None:
  asking = _asking(t.is_inference())
  _set_data(asking, t)
  _set_data(asking, _empty(t.is_inference()))


def another(is_inference: bool) -> torch.Tensor:
  """A tensor of the runtime, whose value is of no use, and not pending.

  Args:
    is_inference: what the tensors are whose data it is to have.
  """
  with torch.inference_mode(is_inference):
    _, (data,) = torch_xla._XLAC._get_tensors_xla_device_data_node(
        [_empty(is_inference)])
    return torch._from_functional_tensor(data) if torch._is_functional_tensor(
        data) else data


@functools.lru_cache(maxsize=2)
def _empty(is_inference: bool) -> torch.Tensor:
  with torch.inference_mode(is_inference):
    empty = torch.empty(0, device='cpu').to('xla')
    return torch._from_functional_tensor(empty) if torch._is_functional_tensor(
        empty) else empty


@functools.lru_cache(maxsize=2)
def _asking(is_inference: bool) -> torch.Tensor:
  return another(is_inference)
