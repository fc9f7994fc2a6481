"""Runs on every device and compares what comes back with known numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import os
from typing import Optional

import numpy as np
import torch
import torch_xla
import torch_xla.debug.metrics as metrics
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

from .. import door
from ..compile import ledger
from ..door.device_plugins import CPU_DEVICE
from ..hlo import messages
from ..mode import current_mode, Mode
from ..stablehlo import answer
from . import identity
from .report import Finding, one_line, Diagnosis, Status

START, TRANSFER, COMPUTATION = 'start', 'transfer', 'computation'
COLLECTIVE, DOOR, IDENTITY = 'collective', 'door', 'identity'
STEPS = (START, TRANSFER, COMPUTATION, COLLECTIVE, DOOR, IDENTITY)
_AXIS = 'devices'
_SIZE = 16
# Whole numbers this small are exact in bfloat16, in which a TPU multiplies, and
# their products' sums are in float32.
_LARGEST = 8
# What XLA's modules call an all-reduce, whether it waits or not.
_ALL_REDUCE = ('all-reduce', 'all-reduce-start')


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
  work = {
      START: _start,
      TRANSFER: _transfer,
      COMPUTATION: _compute,
      COLLECTIVE: _collective,
      DOOR: _door,
      IDENTITY: lambda _: identity.find(),
  }
  failed = ''
  with _compiled_programs() as compiled:
    state = _State(len(ledger.process_ledger.programs()), _compiles(), compiled)
    for step in STEPS:
      check = f'probe.{step}'
      if failed:
        yield Finding(check, Status.SKIPPED, f'{failed} failed')
        continue
      on_step(step)
      try:
        yield dataclasses.replace(work[step](state), check=check)
      except Exception as e:  # Whatever the runtime raises is the finding.
        yield Finding(check, Status.ERROR, one_line(f'{type(e).__name__}: {e}'),
                      _remedy(step))
        failed = check if step == START else failed


@dataclasses.dataclass(frozen=True)
class _State:
  """The state that later steps need of earlier ones.

  Attributes:
    programs_before: how many programs had passed the door before the probe.
    compiles_before: how many torch_xla had asked a compiler for by then.
    compiled: the probe's compiled programs, and their formats; none with the
      mode off.
  """
  programs_before: int
  compiles_before: int
  compiled: list[tuple[bytes, str]]


def _compiles() -> int:
  return metrics.counter_value('UncachedCompile') or 0


def _finding(status: Status, text: str, remedy: str = '') -> Finding:
  return Finding('', status, text, remedy)


def _remedy(step: str) -> str:
  if step == START:
    return ('the runtime does not start: look at the findings on device, '
            'plugin and environment, or set PJRT_DEVICE=CPU')
  return 'the device, its driver or its plugin is broken, or they do not match'


def _start(_: _State) -> Finding:
  torch_xla._XLAC._init_computation_client()
  real = _real_devices()
  if not real:
    raise ProbeError('the runtime has no device')
  devices = f'{len(real)} device(s): ' + ' '.join(real)
  wanted = os.environ.get('CPU_NUM_DEVICES', '1')
  if xr.device_type() in ('CPU', CPU_DEVICE) and wanted != str(len(real)):
    return _finding(
        Status.ERROR, f'{devices}, but CPU_NUM_DEVICES={wanted}',
        'set CPU_NUM_DEVICES to a positive number before the runtime starts')
  return _finding(Status.OK, devices)


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


def _transfer(_: _State) -> Finding:
  samples = _samples(_count())
  for host in samples:
    _check_rows(_rows(_on_devices(host)), host, f'transfer of {host.dtype}')
  types = ', '.join(str(s.dtype).replace('torch.', '') for s in samples)
  return _finding(
      Status.OK, f'to {len(_real_devices())} device(s) and back, bit '
      f'for bit: {types}')


def _real_devices() -> list[str]:
  return torch_xla._XLAC._xla_real_devices()


def _whole_numbers(*shape: int) -> torch.Tensor:
  generator = torch.Generator().manual_seed(0)
  return torch.randint(0, _LARGEST, shape, generator=generator).float()


def _compute(_: _State) -> Finding:
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
  return _finding(
      Status.OK,
      f'matrix products of {len(_real_devices())} device(s) are exact')


def _collective(state: _State) -> Finding:
  count = _count()
  if count == 1:
    return _finding(Status.SKIPPED, 'one device has nobody to talk to')
  if not xr.is_spmd():
    # Tried with xm.all_reduce, a thread per device and one after the other:
    # each device compiles a program of its own, they never meet, and XLA:CPU
    # aborts the process after 10 s.
    return _finding(
        Status.SKIPPED,
        'without SPMD, the devices of one process run no collective together',
        'call torch_xla.runtime.use_spmd() first, or run python -m '
        'torch_xla.shardy.doctor')
  host = torch.arange(1., count + 1)[:, None] + torch.arange(_SIZE) % _LARGEST
  tensor = _on_devices(host)[0][1]
  del state.compiled[:]
  result = tensor.sum(0)
  torch_xla._XLAC._xla_sync_multi([result], [], True, True)
  reduces = [_has_all_reduce(*program) for program in state.compiled]
  expected = host.sum(0)
  if not torch.equal(result.cpu(), expected):
    raise ProbeError(f'the sum over {count} devices is {result.cpu().tolist()}'
                     f', not {expected.tolist()}')
  summary = f'the sum over {count} devices is exact'
  if any(reduces):
    return _finding(Status.OK, summary + ', by an all-reduce')
  if None in reduces or not reduces:  # The plugin does not tell.
    return _finding(Status.OK, summary)
  return _finding(Status.ERROR, summary + ', but no all-reduce was compiled',
                  'the program was not partitioned: see probe.door')


def _has_all_reduce(program: bytes, program_format: str) -> Optional[bool]:
  """Tests whether a program has an all-reduce; None where it is unknown."""
  if program_format == 'mlir':
    collectives = answer.read(program, program_format).collectives
    return collectives and any(c.kind in _ALL_REDUCE for c in collectives)
  parsed = messages.parse_compiled(program, program_format)
  if parsed is None:
    return None
  _, module = parsed
  return any(instruction.opcode in _ALL_REDUCE
             for computation in module.computations
             for instruction in computation.instructions)


@contextlib.contextmanager
def _compiled_programs() -> Iterator[list[tuple[bytes, str]]]:
  """Collects what the backend makes of each program compiled in the block."""
  compiled: list[tuple[bytes, str]] = []

  def keep(compilation: door.Compilation, rest: door.Compiler) -> None:
    rest(compilation)
    compiled.append(compilation.compiled_program())

  undo = door.wrap(keep)
  try:
    yield compiled
  finally:
    undo()


def _door(state: _State) -> Finding:
  mode = current_mode()
  if mode is Mode.OFF:
    return _finding(Status.OK, 'mode off: programs pass no door')
  passed = ledger.process_ledger.programs()[state.programs_before:]
  if not passed:
    if os.environ.get('XLA_PERSISTENT_CACHE_PATH'):
      return _finding(
          Status.SKIPPED, 'nothing was compiled: the programs are from the '
          'persistent cache', 'unset XLA_PERSISTENT_CACHE_PATH to see them '
          'compiled')
    if _compiles() == state.compiles_before:
      return _finding(
          Status.SKIPPED, 'nothing was compiled: the programs are those of an '
          'earlier probe of this process')
    return _finding(
        Status.ERROR, f'mode {mode.value} is on, but no program passed the '
        'door', 'see the finding on mode')
  partitioners = sorted({p.partitioner.value for p in passed})
  notes = sorted({p.note for p in passed if p.note})
  return _finding(
      Status.OK, f'{len(passed)} program(s) passed, partitioned by ' +
      ', '.join(partitioners) + ''.join(f'; note: {n}' for n in notes))
