"""What is told on a terminal while programs compile."""

import io
import sys
import time

import environments
import numpy as np
import pytest
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import progress

ENVIRONMENT = environments.SHARDY


class Terminal(io.StringIO):

  def isatty(self) -> bool:
    return True


@pytest.fixture(scope='module')
def mesh():
  xr.use_spmd()
  return xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))


def step(mesh, rows):
  t = torch.zeros(rows, 8).to('xla')
  xs.mark_sharding(t, mesh, ('data', None))
  made = t + rows
  torch_xla.sync(wait=True)
  return made


def test_a_line_for_each_program(mesh, monkeypatch):
  terminal = Terminal()
  monkeypatch.setattr(sys, 'stderr', terminal)
  with torch_xla.shardy.watch() as watch:
    assert not watch.is_quiet
    t = step(mesh, 4)
    t.cpu(), t.cpu()
  lines = terminal.getvalue().splitlines()
  assert len(lines) == len({line.split()[1] for line in lines}) >= 1
  assert 'shardy  8 partitions' in lines[0] and 'collectives: ' in lines[0]
  step(mesh, 6)
  assert terminal.getvalue().splitlines() == lines


def test_a_program_that_takes_long(mesh, monkeypatch):
  terminal = Terminal()
  monkeypatch.setattr(sys, 'stderr', terminal)
  monkeypatch.setattr(progress, '_PATIENCE_SECONDS', 0.01)

  def slowly(compilation, rest):
    time.sleep(0.1)
    rest(compilation)
    time.sleep(0.1)

  undo = torch_xla.shardy.door.wrap(slowly)
  monkeypatch.setattr(progress, '_AGAIN_SECONDS', 0.05)
  try:
    with torch_xla.shardy.watch():
      step(mesh, 10)
  finally:
    undo()
  text = terminal.getvalue()
  assert 'a program, asked for at ' in text and 'in step: being lowered' in text
  assert 'being partitioned and compiled for 0 s' in text


def test_no_terminal_no_word(mesh, monkeypatch):
  pipe = io.StringIO()
  monkeypatch.setattr(sys, 'stderr', pipe)
  with torch_xla.shardy.watch() as watch:
    step(mesh, 8)
  assert watch.is_quiet and pipe.getvalue() == ''
