"""Keeps the placement of a marked tensor that was updated through a view.

`_XLAC` constrains a sharded tensor that is updated in place, but not where the
update went through a view, `t[0] = x`: its layout is then up to propagation. It
gets the constraint here, which no user asked for.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
import torch_xla

from ..annotate.annotation import Annotation
from ..sharding.hlo_sharding import REPLICATED
from ..sharding.text import parse_sharding
from .graph_inputs import are_pending, GraphInputs


def reconstrain_updated_views(inputs: GraphInputs) -> None:
  """Re-adds the sharding constraint to tensors updated through a view."""
  for place, (annotated, now) in enumerate(inputs.updated):
    if (torch_xla._XLAC._get_xla_sharding_spec(now) or
        now.shape != annotated.inner.shape or (t := annotated.ref()) is None or
        not are_pending([now])[0] or
        not is_placed(annotated.inner, annotated.annotation)):
      continue
    constrain(t, annotated.annotation)
    inputs.updated[place] = annotated, annotated.current_of(t)


def is_placed(t: torch.Tensor, annotation: Annotation) -> bool:
  """Tests whether a tensor is laid out as its annotation asks."""
  if len(annotation.partition_spec) != len(t.shape):
    return False
  text = torch_xla._XLAC._get_xla_sharding_spec(t)
  return (parse_sharding(text) if text else REPLICATED) == annotation.sharding


def may_be_placed(t: torch.Tensor, annotation: Annotation) -> bool:
  """Tests whether a pending tensor is placed so, or nowhere yet."""
  return not torch_xla._XLAC._get_xla_sharding_spec(t) or is_placed(
      t, annotation)


def constrain(t: torch.Tensor, annotation: Annotation) -> None:
  torch_xla._XLAC._xla_annotate_custom_sharding(t, op_sharding(annotation))


@functools.lru_cache(maxsize=256)
def op_sharding(annotation: Annotation) -> Any:
  from torch_xla.distributed.spmd import Mesh
  mesh = annotation.mesh
  ids = mesh.device_ids or range(int(np.prod(mesh.shape)))
  spec = tuple(axes or None for axes in annotation.partition_spec)
  return Mesh(np.array(ids), mesh.shape).get_op_sharding(spec)
