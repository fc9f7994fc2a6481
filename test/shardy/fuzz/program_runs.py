"""Runs random programs: on sharded tensors of eight devices, and by torch.

`run` is called in a process with an SPMD runtime. What it compares: each
result, each gradient and each input as it is afterwards, shard by shard, so
that nothing is compiled but the program itself; and where inputs are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import contextlib
import dataclasses
import enum
import re
import traceback
from typing import Any, Optional

import numpy as np
from random_programs import Input, Program
import torch
import torch.nn.functional as F

# Of a result whose largest element is 1 or less: the rounding of some steps. A
# shard in a wrong place differs by about 1. A gradient that is 0 but for
# rounding, as of a bias before a norm, sums what is as large as the others:
# it may also differ by `_ROUNDING` of that, of the largest of any.
_TOLERANCES = {
    'float64': 1e-6,
    'float32': 1e-3,
    'float16': 3e-2,
    'bfloat16': 2e-1,
}
_ROUNDING = 0.01
_RATE = 0.125
_NUMBER = re.compile(r'\b[a-z]*\d+')
# What a note says of a program's own tensors and layouts.
_MOST = 400
_NAME = re.compile(r' \([^()]*\)')
_PARTICULAR = re.compile(
    r'\{[^{}]*\}|(?:\bN)?\[[^\[\]]*\]|(?:#sdy\.mesh)?<[^<>]*>')


class Status(enum.Enum):
  OK = 'ok'
  WRONG = 'wrong numbers'
  MOVED = 'stored otherwise'
  RAISED = 'raised'
  DIED = 'process ended'
  SKIPPED = 'refused by torch'


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What became of a program.

  Attributes:
    detail: of a failure, in a few words.
    partitioners: of each program that was compiled, by name.
    fallbacks: the notes of programs that GSPMD partitioned.
  """
  seed: int
  status: Status
  detail: str = ''
  partitioners: tuple[str, ...] = ()
  fallbacks: tuple[str, ...] = ()

  @property
  def failed(self) -> bool:
    return self.status not in (Status.OK, Status.SKIPPED)

  def to_json(self) -> dict[str, Any]:
    return {**dataclasses.asdict(self), 'status': self.status.name}

  @classmethod
  def from_json(cls, data: Mapping[str, Any]) -> Outcome:
    return cls(data['seed'], Status[data['status']], data['detail'],
               tuple(data['partitioners']), tuple(data['fallbacks']))


def reason_of(note: str) -> str:
  """A note without what it says of one program: the same for like reasons."""
  note = _NUMBER.sub('N', _NAME.sub('', note.partition('\n')[0][:_MOST]))
  while (shorter := _PARTICULAR.sub('..', note)) != note:
    note = shorter
  return note


def start() -> None:
  """Makes this process ready to run programs."""
  import torch_xla.runtime as xr
  xr.use_spmd()
  # Starts it: autograd counts the devices when it is first used.
  xr.global_runtime_device_count()


def run(program: Program) -> Outcome:
  """Runs a program sharded, and compares with torch."""
  from torch_xla import shardy
  try:
    expected = _Run(program, 'cpu').finish()
  except (RuntimeError, ValueError, IndexError) as e:
    return Outcome(program.seed, Status.SKIPPED, str(e).splitlines()[0])
  records = []
  try:
    with _recorded(shardy) as records:
      status, detail = _compared(program, expected)
  except Exception as e:  # pylint: disable=broad-except
    where = traceback.extract_tb(e.__traceback__)[-1]
    # Of a step that gave the very tensor that it was given.
    status = (
        Status.SKIPPED
        if 'Existing annotation must be cleared' in str(e) else Status.RAISED)
    detail = f'{type(e).__name__}: {e} ({where.name})'[:2000]
  return Outcome(
      program.seed, status, detail,
      tuple(record.partitioner.value for record in records),
      tuple(record.note or record.error for record in records if record.error or
            record.note and record.partitioner.value != 'shardy'))


@contextlib.contextmanager
def _recorded(shardy) -> Iterator[list]:
  if shardy.current_mode() is shardy.Mode.OFF:
    yield []
    return
  with shardy.record() as records:
    yield records


def _compared(program: Program,
              expected: dict[str, torch.Tensor]) -> tuple[Status, str]:
  import torch_xla
  on_device = _Run(program, 'xla')
  torch_xla.sync(wait=True)
  placed = on_device.placements()
  made = on_device.finish()
  torch_xla.sync(wait=True)
  tolerance = _TOLERANCES[program.precision]
  summed = max((_largest(t)
                for name, t in expected.items()
                if name.startswith('gradient')),
               default=0.0)
  for name, want in expected.items():
    is_of_gradient = name.startswith('gradient') or any(
        name == step.name for step in program.updates)
    wrong = _difference(made[name], want, tolerance,
                        _ROUNDING * summed if is_of_gradient else 0.0)
    if wrong:
      return Status.WRONG, f'{name}, {tuple(want.shape)} {want.dtype}: {wrong}'
  for name, (before, now) in on_device.moved(placed).items():
    return Status.MOVED, f'{name} was stored as {before} and is as {now}'
  return Status.OK, ''


class _Run:
  """One run of a program, on `device`."""

  def __init__(self, program: Program, device: str):
    self._program = program
    self._device = device
    self._meshes = [] if device == 'cpu' else _meshes(program)
    self._marked: list[torch.Tensor] = []  # By a step.
    self._inputs = {}
    for place, one in enumerate(program.inputs):
      t = data_of(one, program.seed * 1000 + place).to(device)
      if one.weight:
        t = torch.nn.Parameter(t, requires_grad=one.gradient)
      else:
        t.requires_grad_(one.gradient)
      if one.mark:
        eval(f'mark(t, {one.mark})', {'mark': self._mark_input, 't': t})  # pylint: disable=eval-used
      self._inputs[one.name] = t

  def finish(self) -> dict[str, torch.Tensor]:
    """Runs the steps; results, gradients and inputs by name."""
    program = self._program
    names: dict[str, Any] = {
        'torch': torch,
        'F': F,
        'mark': self._mark,
        'update': lambda t: None,
        **self._inputs
    }
    for step in program.steps:
      exec(step.text, names)  # pylint: disable=exec-used
    results = {f'result {name}': names[name] for name in program.results}
    if program.backward:
      loss = sum((t.float().square().mean()
                  for t in results.values()
                  if t.is_floating_point()),
                 start=torch.zeros((), device=self._device))
      if loss.requires_grad:
        loss.backward()
    gradients = {
        f'gradient of {name}': t.grad
        for name, t in self._inputs.items()
        if t.grad is not None
    }
    for step in program.updates:
      t = self._inputs[step.name]
      if t.grad is not None:
        with torch.no_grad():
          t.sub_(t.grad, alpha=_RATE)
    return {
        name: t.detach() for name, t in (*results.items(), *gradients.items(),
                                        *self._inputs.items())
    }

  def placements(self) -> dict[str, str]:
    from torch_xla import _XLAC
    return {
        one.name: _XLAC._get_xla_sharding_spec(self._inputs[one.name])
        for one in self._program.inputs
        if one.mark
    }

  def moved(self, before: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    now = self.placements()
    return {
        name: (before[name], now[name])
        for name in before
        if before[name] != now[name] and all(
            t is not self._inputs[name] for t in self._marked)
    }

  def _mark_input(self, t: torch.Tensor, mesh: int, spec: tuple,
                  priority: Optional[tuple]) -> None:
    if self._meshes:
      import torch_xla.distributed.spmd as xs
      xs.mark_sharding(t, self._meshes[mesh], spec, priority=priority)

  def _mark(self, t: torch.Tensor, mesh: int, spec: tuple,
            priority: Optional[tuple]) -> torch.Tensor:
    if not self._meshes:
      # Likewise: with a gradient it gives another tensor.
      return t.clone() if t.requires_grad else t
    import torch_xla.distributed.spmd as xs
    if t.requires_grad:
      return xs.mark_sharding_with_gradients(
          t, self._meshes[mesh], spec, priority=priority)
    xs.mark_sharding(t, self._meshes[mesh], spec, priority=priority)
    self._marked.append(t)
    return t


def data_of(one: Input, seed: int) -> torch.Tensor:
  """The data of an input, on the CPU."""
  generator = torch.Generator().manual_seed(seed)
  dtype = getattr(torch, one.dtype)
  if one.kind == 'normal':
    return torch.randn(one.shape, generator=generator).to(dtype)
  if one.kind == 'mask':
    return torch.rand(one.shape, generator=generator) < 0.5
  below = one.below or 20
  return torch.randint(below, one.shape, generator=generator).to(dtype)


def _meshes(program: Program) -> list:
  import torch_xla.distributed.spmd as xs
  return [
      xs.Mesh(np.array(mesh.device_ids), mesh.shape, mesh.axis_names)
      for mesh in program.meshes
  ]


def _largest(t: torch.Tensor) -> float:
  """The largest magnitude of its finite elements."""
  return float(t.double().abs().nan_to_num(0, 0, 0).max()) if t.numel() else 0.0


def _difference(t: torch.Tensor, want: torch.Tensor, tolerance: float,
                summed: float) -> Optional[str]:
  """How a tensor's shards differ from what they are to be; None if not.

  Args:
    summed: how large what it is a sum of is at most, as far as that is known.
  """
  from torch_xla import _XLAC
  if t.device.type == 'cpu' or not _XLAC._get_xla_sharding_spec(t):
    return _far(t.cpu(), want, tolerance, summed)
  if tuple(t.shape) != tuple(want.shape):
    return f'has shape {tuple(t.shape)}'
  shards, = _XLAC._get_local_shards([t])
  places, = _XLAC._get_local_shard_replica_and_indices([t])
  for (data, device), (_, indices) in zip(shards, places):
    if indices is not Ellipsis:
      data = data[tuple(slice(0, s.stop - s.start) for s in indices)]
    part = want if indices is Ellipsis else want[tuple(indices)]
    wrong = _far(data, part, tolerance, summed)
    if wrong:
      return f'{wrong} on device {device}'
  return None


def _far(t: torch.Tensor, want: torch.Tensor, tolerance: float,
         summed: float) -> Optional[str]:
  if tuple(t.shape) != tuple(want.shape):
    return f'has shape {tuple(t.shape)}'
  if not want.numel():
    return None
  if not want.is_floating_point():
    count = int((t.to(torch.int64) != want.to(torch.int64)).sum())
    return f'{count} of {want.numel()} elements differ' if count else None
  t, want = t.double(), want.double()
  # Where one is infinite or no number, so must be the other.
  unlike = ~torch.isclose(
      t,
      want,
      rtol=tolerance,
      atol=tolerance * max(1.0, _largest(want), summed),
      equal_nan=True)
  count = int(unlike.sum())
  if not count:
    return None
  most = float((t - want).abs().nan_to_num(float('inf')).max())
  return f'{count} of {want.numel()} elements differ, by {most:.3g} at most'
