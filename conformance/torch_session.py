"""torch_xla on the plugin under test, in SPMD."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import functools
from typing import Any
import numpy as np

from .case import Failure, Needs, NotApplicable
from .comparison import compare, EXACT, Shard
from .torch_modules import missing, torch, torch_xla, xr, xs

DATA, MODEL = 'data', 'model'
# How the first two dimensions of a tensor can be split over `TorchSession.grid`.
SPECS = {
    'replicated': (None, None),
    'data_none': (DATA, None),
    'model_none': (MODEL, None),
    'none_data': (None, DATA),
    'none_model': (None, MODEL),
    'data_model': (DATA, MODEL),
    'model_data': (MODEL, DATA),
    'both_none': ((DATA, MODEL), None),
    'none_both': (None, (DATA, MODEL)),
}


class TorchSession:
  """The runtime, started on the plugin's devices.

  Attributes:
    device: of tensors.
    count: of devices.
  """

  def __init__(self, device: str):
    """Starts it on a device whose plugin is registered."""
    xr.set_device_type(device)
    xr.use_spmd()
    self.device = torch_xla.device()
    self.count = xr.global_runtime_device_count()

  @functools.cached_property
  def grid_shape(self) -> tuple[int, int]:
    """The grid as (data, model): 2 x 4 of eight devices."""
    data = 2 if self.count % 2 == 0 else 1
    return data, self.count // data

  def mesh(self,
           shape: Sequence[int],
           names: Sequence[str],
           device_ids: Sequence[int] = ()) -> xs.Mesh:
    ids = np.array(device_ids or range(self.count))
    return xs.Mesh(ids, tuple(shape), tuple(names))

  def grid(self, device_ids: Sequence[int] = ()) -> xs.Mesh:
    """All devices, with axes 'data' and 'model'."""
    return self.mesh(self.grid_shape, (DATA, MODEL), device_ids)

  def even_numbers(self) -> torch.Tensor:
    """A matrix whose dimensions all devices divide, so that nothing is padded.
    """
    return numbers(2 * self.count, 4 * self.count)

  def to_device(self, host: torch.Tensor) -> torch.Tensor:
    return host.to(self.device)


def recorded() -> contextlib.AbstractContextManager[list[Any]]:
  """Collects the programs of the block, where torch_xla can: else none."""
  if missing(Needs.MODES):
    return contextlib.nullcontext([])
  return torch_xla.shardy.record()


def annotated(tensor: torch.Tensor, mesh: xs.Mesh,
              spec: Iterable[object]) -> torch.Tensor:
  """The tensor, marked, and there on the devices when this returns."""
  xs.mark_sharding(tensor, mesh, tuple(spec))
  torch_xla.sync(wait=True)
  return tensor


def check_equal(actual: torch.Tensor, expected: torch.Tensor,
                label: str) -> None:
  """Compares element by element; zeros of either sign are equal.

  Raises:
    Failure: they differ; it says where first.
  """
  try:
    compare(expected, actual, EXACT)
  except Failure as e:
    raise Failure(f'{label}: {e}') from e


def shards(tensor: torch.Tensor) -> Iterator[Shard]:
  """The shards of a tensor without padding.

  To read it whole would compile a program that gathers it, and then show what
  one of the devices has. Indices that torch_xla calls int64 may be int32 there.
  """
  for shard in xs.XLAShardedTensor(tensor).local_shards:
    if shard.indices is Ellipsis:
      index, data = ..., shard.data
    else:
      index, data = tuple(shard.indices), shard.unpadded_data
    yield Shard(shard.shard_device, index, data.to(tensor.dtype))


def expected_shards(host: torch.Tensor, mesh: xs.Mesh,
                    spec: Iterable[object]) -> dict[int, torch.Tensor]:
  """The expected shards, computed from the mesh alone.

  A dimension is cut into as many tiles as its axes have devices, each as large
  as the first; the last ones may be shorter, or empty.
  """
  names = list(mesh.axis_names)
  ids = mesh.device_ids.reshape(mesh.mesh_shape)
  shards_by_device = {}
  for place in np.ndindex(*mesh.mesh_shape):
    part = host
    for dim, entry in enumerate(spec):
      axes = entry if isinstance(entry, tuple) else (entry,)
      tiles, number = 1, 0
      for axis in axes:
        if axis is not None:
          size = mesh.mesh_shape[names.index(axis)]
          tiles, number = tiles * size, number * size + place[names.index(axis)]
      size = -(-host.shape[dim] // tiles)
      begin = min(number * size, host.shape[dim])
      end = min(begin + size, host.shape[dim])
      part = part.narrow(dim, begin, end - begin)
    shards_by_device[int(ids[place])] = part
  return shards_by_device


def check_shards(tensor: torch.Tensor, host: torch.Tensor, mesh: xs.Mesh,
                 spec: Iterable[object], label: str) -> None:
  """Checks that each device holds its part of `host`.

  Raises:
    Failure: a device holds something else than its part of `host`.
  """
  spec = tuple(spec)
  expected = expected_shards(host, mesh, spec)
  actual = {int(s.device.split(':')[1]): s.data for s in shards(tensor)}
  if not actual:
    raise NotApplicable('no device of this process holds a part')
  for device, part in sorted(actual.items()):
    check_equal(part, expected[device], f'{label}, device {device}')


def numbers(*shape: int, start: int = 0) -> torch.Tensor:
  """Whole numbers, all different, exact in float32."""
  count = int(np.prod(shape))
  return torch.arange(start, start + count, dtype=torch.float32).reshape(shape)
