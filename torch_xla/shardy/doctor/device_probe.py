"""Runs on every device and compares what comes back with known numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import os
from typing import NamedTuple

import numpy as np
import torch
import torch_xla
import torch_xla.debug.metrics as metrics
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

from ..compile import ledger
from ..door.device_plugins import CPU_DEVICE
from ..mode import current_mode, Mode
from .report import (Diagnosis, ERROR, Finding, Judgement, OK, one_line,
                     SKIPPED, WARNING)

_AXIS = 'devices'
_SIZE = 16
# Whole numbers this small are exact in bfloat16, in which a TPU multiplies, and
# their products' sums are in float32.
_LARGEST = 8


class ProbeError(RuntimeError):
  """A device gave something else than it should have."""


def probe() -> Diagnosis:
  """Runs the probe in this process, starting its runtime if need be.

  In SPMD all devices work together. Without, each works alone, and there is no
  collective: see `_collective`. A runtime that crashes takes the process with
  it; `torch-xla-shardy doctor` runs the probe in a child.
  """
  return Diagnosis(tuple(run()))


def run(
    on_step: Callable[[str], None] = lambda step: None) -> Iterator[Finding]:
  """Yields one finding per step; `on_step` hears of each before it runs."""
  is_started = True
  state = _State(len(ledger.process_ledger.programs()), _compiles())
  for step, judge in STEPS.items():
    check = f'probe.{step}'
    if not is_started:
      yield Finding(check, SKIPPED, 'probe.start failed')
      continue
    on_step(step)
    try:
      yield Finding(check, *judge(state))
    except Exception as e:  # Whatever the runtime raises is the finding.
      is_started = step != 'start'
      yield Finding(
          check, ERROR, one_line(f'{type(e).__name__}: {e}'),
          'the device, its driver or its plugin is broken, or they do not match'
          if is_started else
          'the runtime does not start: look at the findings on device, plugin '
          'and environment, or set PJRT_DEVICE=CPU')


class _State(NamedTuple):
  """The counts before the probe.

  Attributes:
    programs: how many had passed the door.
    compiles: how many torch_xla had asked a compiler for.
  """
  programs: int
  compiles: int


def _compiles() -> int:
  return metrics.counter_value('UncachedCompile') or 0


def _start(_: _State) -> Judgement:
  torch_xla._XLAC._init_computation_client()
  real = _real_devices()
  if not real:
    raise ProbeError('the runtime has no device')
  devices = f'{len(real)} device(s): ' + ' '.join(real)
  wanted = os.environ.get('CPU_NUM_DEVICES', '1')
  if xr.device_type() in ('CPU', CPU_DEVICE) and wanted != str(len(real)):
    return (
        ERROR, f'{devices}, but CPU_NUM_DEVICES={wanted}',
        'set CPU_NUM_DEVICES to a positive number before the runtime starts')
  return OK, devices


def _shards(tensor: torch.Tensor) -> list[tuple[str, int, torch.Tensor]]:
  """A sharded tensor's (device, first row, data) of this process's devices."""
  sharded = xs.XLAShardedTensor(tensor)
  return [(s.shard_device, s.indices[0].start or 0,
           s.unpadded_data) if s.indices is not Ellipsis else
          (s.shard_device, 0, s.data) for s in sharded.local_shards]


def _mesh() -> xs.Mesh:
  count = xr.global_runtime_device_count()
  return xs.Mesh(np.arange(count), (count,), (_AXIS,))


def _on_devices(host: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
  """The rows of `host` on XLA devices: (device, tensor of its rows)."""
  if xr.is_spmd():
    tensor = host.to('xla')
    xs.mark_sharding(tensor, _mesh(), (_AXIS,) + (None,) * (host.dim() - 1))
    return [('all', tensor)]
  return [
      (f'xla:{i}', row.to(f'xla:{i}')) for i, row in enumerate(host.split(1))
  ]


def _rows(
    pieces: list[tuple[str,
                       torch.Tensor]]) -> list[tuple[str, int, torch.Tensor]]:
  """Reads `_on_devices`' pieces: (device, row number, data on the host)."""
  if xr.is_spmd():
    return _shards(pieces[0][1])
  return [(name, i, data.cpu()) for i, (name, data) in enumerate(pieces)]


def _count() -> int:
  if xr.is_spmd():
    return xr.global_runtime_device_count()
  return xr.addressable_runtime_device_count()


def _bits(tensor: torch.Tensor) -> torch.Tensor:
  return tensor.contiguous().view(torch.uint8)


def _check_rows(rows: list[tuple[str, int, torch.Tensor]],
                expected: torch.Tensor, operation: str) -> None:
  """Checks that every device has given the expected rows, bit by bit."""
  if len(rows) != xr.addressable_runtime_device_count():
    raise ProbeError(f'{operation}: {len(rows)} device(s) answered of '
                     f'{xr.addressable_runtime_device_count()}')
  for device, start, data in rows:
    want = expected[start:start + data.shape[0]]
    if data.dtype != want.dtype or data.shape != want.shape:
      raise ProbeError(
          f'{operation} on {device}: {data.dtype} {tuple(data.shape)} came back, '
          f'{want.dtype} {tuple(want.shape)} was expected')
    wrong = int((_bits(data) != _bits(want)).sum())
    if wrong:
      raise ProbeError(f'{operation} on {device}: {wrong} of '
                       f'{_bits(want).numel()} bytes are wrong')


def _samples(count: int) -> list[torch.Tensor]:
  """Host tensors, a row per device, that use the whole width of their types."""
  steps = torch.arange(count * _SIZE).reshape(count, _SIZE)
  reals = (steps - steps.numel() / 2) / 3
  return [
      reals.float(),
      reals.bfloat16(),
      (steps * 0x01234567 % (1 << 31)).int(),
      (steps % 256).to(torch.uint8),
      steps % 3 == 0,
  ]


def _transfer(_: _State) -> Judgement:
  samples = _samples(_count())
  for host in samples:
    _check_rows(_rows(_on_devices(host)), host, f'transfer of {host.dtype}')
  types = ', '.join(str(s.dtype).replace('torch.', '') for s in samples)
  return (OK, f'to {len(_real_devices())} device(s) and back, bit '
          f'for bit: {types}')


def _real_devices() -> list[str]:
  return torch_xla._XLAC._xla_real_devices()


def _whole_numbers(*shape: int) -> torch.Tensor:
  generator = torch.Generator().manual_seed(0)
  return torch.randint(0, _LARGEST, shape, generator=generator).float()


def _compute(_: _State) -> Judgement:
  left = _whole_numbers(_count(), _SIZE, _SIZE)
  right = _whole_numbers(_SIZE, _SIZE)
  pieces = [
      (name, data @ right.to(data.device)) for name, data in _on_devices(left)
  ]
  if xr.is_spmd():
    xs.mark_sharding(pieces[0][1], _mesh(), (_AXIS, None, None))
    # Only this tensor: what the process has pending is not the doctor's.
    torch_xla._XLAC._xla_sync_multi([pieces[0][1]], [], True, True)
  _check_rows(_rows(pieces), left @ right, 'matrix product')
  return (OK, f'matrix products of {len(_real_devices())} device(s) are exact')


def _collective(_: _State) -> Judgement:
  count = _count()
  if count == 1:
    return SKIPPED, 'one device has nobody to talk to'
  if not xr.is_spmd():
    # Tried with xm.all_reduce, a thread per device and one after the other:
    # each device compiles a program of its own, they never meet, and XLA:CPU
    # aborts the process after 10 s.
    return (
        SKIPPED,
        'without SPMD, the devices of one process run no collective together',
        'call torch_xla.runtime.use_spmd() first, or run python -m '
        'torch_xla.shardy.doctor')
  host = torch.arange(1., count + 1)[:, None] + torch.arange(_SIZE) % _LARGEST
  tensor = _on_devices(host)[0][1]
  before = len(ledger.process_ledger.programs())
  result = tensor.sum(0)
  torch_xla._XLAC._xla_sync_multi([result], [], True, True)
  reduces = [
      p.collectives and any(c.kind == 'all-reduce'
                            for c in p.collectives)
      for p in ledger.process_ledger.programs()[before:]
  ]
  expected = host.sum(0)
  if not torch.equal(result.cpu(), expected):
    raise ProbeError(f'the sum over {count} devices is {result.cpu().tolist()}'
                     f', not {expected.tolist()}')
  summary = f'the sum over {count} devices is exact'
  if any(reduces):
    return OK, summary + ', by an all-reduce'
  if None in reduces or not reduces:  # The plugin does not tell.
    return OK, summary
  return (ERROR, summary + ', but no all-reduce was compiled',
          'the program was not partitioned: see probe.door')


def _door(state: _State) -> Judgement:
  mode = current_mode()
  if mode is Mode.OFF:
    return OK, 'mode off: programs pass no door'
  passed = ledger.process_ledger.programs()[state.programs:]
  if not passed:
    if os.environ.get('XLA_PERSISTENT_CACHE_PATH'):
      return (SKIPPED, 'nothing was compiled: the programs are from the '
              'persistent cache', 'unset XLA_PERSISTENT_CACHE_PATH to see them '
              'compiled')
    if _compiles() == state.compiles:
      return (SKIPPED, 'nothing was compiled: the programs are those of an '
              'earlier probe of this process')
    return (ERROR, f'mode {mode.value} is on, but no program passed the '
            'door', 'see the finding on mode')
  partitioners = sorted({p.partitioner.value for p in passed})
  notes = sorted({p.note for p in passed if p.note})
  return (OK, f'{len(passed)} program(s) passed, partitioned by ' +
          ', '.join(partitioners) + ''.join(f'; note: {n}' for n in notes))


def _identity(_: _State) -> Judgement:
  """Tests whether programs are distinct that differ only in where a tensor is used.

  `_XLAC` 2.9.0 finds a compiled program by a hash to which all data of one
  shape and placement is alike, wherever it is used. `libgraph_identity.so`,
  which torch_xla's import loads before it, adds that to the hash.
  """
  _on_both(lambda a, b: (a - b) * (a / b))
  actual, expected = _on_both(lambda a, b: (a - b) * (b / a))
  if torch.allclose(actual, expected):
    return OK, 'programs that differ in where a tensor is used are apart'
  return (
      WARNING,
      'after (a - b) * (a / b), (a - b) * (b / a) is computed by the program of '
      f'the first: {actual.tolist()} for {expected.tolist()}',
      'libgraph_identity.so has no effect: torch has to be 2.9, loaded without '
      'TORCH_USE_RTLD_GLOBAL, and _XLAC by import torch_xla')


def _on_both(function: Callable) -> tuple[torch.Tensor, torch.Tensor]:
  """The result of a device, and the host's; runs nothing that is pending."""
  host = torch.tensor((6., 8.)), torch.tensor((2., 4.))
  result = function(*(t.to('xla') for t in host))
  torch_xla._XLAC._xla_sync_multi([result], [], True, True)
  return result.cpu(), function(*host)


STEPS: dict[str, Callable[[_State], Judgement]] = {
    'start': _start,
    'transfer': _transfer,
    'computation': _compute,
    'collective': _collective,
    'door': _door,
    'identity': _identity,
}
