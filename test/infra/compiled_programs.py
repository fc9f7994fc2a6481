"""Small compiled programs by number, run beside eager torch on the host.

`python compiled_programs.py FIRST LAST` prints, as JSON, what came of each with
the torch_xla that it imports: `right`, `wrong`, or the error. It uses nothing
that the official wheel does not have.
"""

from __future__ import annotations

import json
import multiprocessing
from multiprocessing.connection import Connection
import os
import random
import sys
from typing import Any, Callable

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

STEPS = 9
_SECONDS = 300  # Of a program.
_SIZE = 8
_READS = ('each', 'end', 'synced')
_SPECS = ((None, None), ('x', None), (None, 'y'), ('y', 'x'))


class World:
  """A program's tensors on one device; the same seed gives the same ones."""

  def __init__(self, device: str, seed: int, mesh: Any):
    self.device, self.mesh = device, mesh
    self.random = torch.Generator().manual_seed(seed)
    self.w, self.other = self.new(), self.new()
    self.buffer, self.scalar = self.new(), self.new(())
    self.mark(self.w, _SPECS[seed % 4])
    self.leaf = self.new().requires_grad_()
    # Tied where the seed is odd.
    self.second = self.leaf if seed % 2 else self.new().requires_grad_()
    kind = (torch.optim.SGD, torch.optim.Adam)[seed % 3 == 0]
    self.optimizer = kind([*{self.leaf, self.second}], lr=.01)

  def new(self, shape: tuple[int, ...] = (_SIZE, _SIZE)) -> torch.Tensor:
    return torch.randn(shape, generator=self.random).to(self.device)

  def mark(self, t: torch.Tensor, spec: tuple[Any, ...]) -> None:
    if self.device == 'xla':
      xs.mark_sharding(t, self.mesh, spec)


# What a function does, with `x` as it comes in; each gives the next `x`.


def _updated(w: World, x: torch.Tensor) -> torch.Tensor:
  x.mul_(.5)
  return x + 1


def _updated_buffer(w: World, x: torch.Tensor) -> torch.Tensor:
  w.buffer.mul_(.9).add_(x.tanh().sum(0))  # Small enough for a sine.
  return x + w.buffer


def _written_view(w: World, x: torch.Tensor) -> torch.Tensor:
  y = x * 1
  y.view(-1)[:_SIZE] = 2.
  return y


def _written_slice(w: World, x: torch.Tensor) -> torch.Tensor:
  w.buffer[1:3] = w.other[0]
  return x - w.buffer


def _broken(w: World, x: torch.Tensor) -> torch.Tensor:
  y = x.sin()
  torch._dynamo.graph_break()
  return y.cumsum(0)


_OPERATIONS: tuple[Callable[[World, torch.Tensor], torch.Tensor], ...] = (
    lambda w, x: x @ w.w,
    lambda w, x: (x @ w.w.t()).tanh() + w.other[0],
    lambda w, x: x.cumsum(0) * .1,
    lambda w, x: x * w.scalar + 2.5,
    lambda w, x: x.bfloat16().float().round(),
    lambda w, x: torch.where(x > 0, x.int(), -1).float(),
    lambda w, x: torch.nn.functional.dropout(x, 0.) + x.amax(1, keepdim=True),
    lambda w, x: x.t().reshape(x.shape) + x.transpose(0, 1).sum(),
    lambda w, x: x.softmax(-1) @ w.leaf @ w.second,
    lambda w, x: x + w.leaf.sum() * w.second.mean(),
    _updated,
    _updated_buffer,
    _written_view,
    _written_slice,
    _broken,
)

# What happens between the steps.


def _swap(w: World, step: int) -> None:
  w.w.data = w.new() if step % 2 else w.other


def _update(w: World, step: int) -> None:
  w.w.add_(.5)
  w.other.copy_(w.w)
  w.w.mul_(.9)


def _mark_anew(w: World, step: int) -> None:
  if step > 5:
    w.w = w.w * 1
    w.mark(w.w, _SPECS[step % 4])


def _scale(w: World, step: int) -> None:
  # As the scalar of the graph, at first.
  w.scalar = torch.tensor(2.5 + step // 3).to(w.device)
  w.buffer = w.buffer + w.other * w.scalar


def _share(w: World, step: int) -> None:
  w.other = w.w.detach() if step < 4 else w.new()


_EVENTS = (None, _swap, _update, _mark_anew, _scale, _share)


def _steps(seed: int, device: str, mesh: Any, read: str) -> list[torch.Tensor]:
  """All that a program computes, on the host."""
  choice = random.Random(seed)
  operations = choice.choices(_OPERATIONS, k=choice.randint(1, 4))
  event, trains = choice.choice(_EVENTS), choice.random() < .3
  is_dynamic, raises = choice.random() < .15, choice.random() < .15
  w = World(device, seed, mesh)

  def function(x: torch.Tensor, fails: bool) -> torch.Tensor:
    for operation in operations:
      x = operation(w, x)
    if fails:
      raise ValueError
    return x

  def second(x: torch.Tensor) -> torch.Tensor:
    return x.abs() + w.w

  if device == 'xla':
    function, second = (torch.compile(f, backend='openxla', dynamic=d)
                        for f, d in ((function, is_dynamic or None), (second,
                                                                      None)))
  found: list[torch.Tensor] = []
  for step in range(STEPS):
    if event is not None and step:
      event(w, step)
    x = w.new()
    with torch.set_grad_enabled(trains):
      try:
        out = function(x, raises and step == 3)
      except ValueError:
        continue
      if trains and out.requires_grad:
        w.optimizer.zero_grad()
        out.square().mean().backward()
        w.optimizer.step()
      # Of two functions of one tensor the official wheel has the second wrong.
      y = w.new() if seed % 8 else x.detach()
      out = [out.detach(), second(y).detach(), w.buffer, w.leaf]
    if device == 'xla' and read == 'synced':
      torch_xla.sync()
    # What is updated in place later is read as it is now.
    out[2:] = [t.detach().clone() for t in out[2:]]
    found += [t.cpu() for t in out] if read == 'each' else out
  return [t.cpu() for t in found]


def outcome(seed: int) -> str:
  """What came of the program with this number, in this process."""
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('x', 'y'))
  read = _READS[seed % len(_READS)]
  try:
    right = _steps(seed, 'cpu', mesh, read)
    got = _steps(seed, 'xla', mesh, read)
    torch.testing.assert_close(got, right, rtol=2e-2, atol=2e-2, equal_nan=True)
  except AssertionError:
    return 'wrong'
  except Exception as error:  # pylint: disable=broad-exception-caught
    return f'{type(error).__name__}: {str(error).strip()[:80]}'
  return 'right'


def _send(seed: int, sender: Connection) -> None:
  sender.send(outcome(seed))
  os._exit(0)  # What an error left behind is not waited for.


def _outcome_apart(seed: int) -> str:
  """The outcome in a process of its own: an error may hang the next program."""
  receiver, sender = multiprocessing.Pipe(duplex=False)
  context = multiprocessing.get_context('fork')
  process = context.Process(target=_send, args=(seed, sender))
  process.start()
  sender.close()
  try:
    return receiver.recv() if receiver.poll(_SECONDS) else 'hangs'
  except EOFError:
    return 'ended the process'
  finally:
    process.kill()


def main(first: int, last: int) -> None:
  outcomes = {seed: _outcome_apart(seed) for seed in range(first, last)}
  print(json.dumps(outcomes), flush=True)


if __name__ == '__main__':
  main(int(sys.argv[1]), int(sys.argv[2]))
