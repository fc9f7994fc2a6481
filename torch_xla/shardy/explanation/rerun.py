"""Runs a script with other priorities, and says what its programs became.

For `suggest`, which has it run in a process of its own, by `aot` where that has
to be for a topology. Its first argument is a JSON file, which gets the answer,
pickled: [the priorities by group and dimension, null for the first run; whether
values are computed].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import dataclasses
import json
import os
import pickle
import random
import sys
from typing import Any, Optional

import numpy as np
import torch

from . import of_records, script
from .. import bind, door, tensor_names
from ..annotate import call_target
from ..annotate.annotation import Annotation
from ..hlo import messages
from ..hlo.protos import HloModuleProto
from ..layers import group_of
from .search import Program

_NO_OPTIMISATION = ('--xla_backend_optimization_level=0 '
                    '--xla_llvm_disable_expensive_passes=true')
# Priorities by group and dimension; groups that are not here stay so.
_Priorities = Mapping[str, Mapping[int, Optional[int]]]


def retell(program: bytes, priorities: _Priorities) -> bytes:
  """A program in HLO with other priorities in its bindings."""
  module = messages.parse(HloModuleProto, program)
  names_of = bind.binder.names.get
  for computation in module.computations:
    for instruction in computation.instructions:
      target = instruction.custom_call_target
      if call_target.is_binding(target):
        annotations = zip(
            call_target.parse_target(target), names_of(target), strict=False)
        instruction.custom_call_target = call_target.with_annotations(
            target, [
                _with_priorities(one, priorities.get(group_of(name), {}))
                for one, name in annotations
            ])
  return module.SerializeToString()


def _with_priorities(annotation: Annotation,
                     priorities: Mapping[int, Optional[int]]) -> Annotation:
  rank = len(annotation.partition_spec)
  before = annotation.priority or (None,) * rank
  after = tuple(priorities.get(n, before[n]) for n in range(rank))
  return dataclasses.replace(
      annotation, priority=None if after == (None,) * rank else after)


def _values() -> Iterator[tuple[str, float]]:
  """The name of each floating-point tensor on the devices, and its mean.

  Computed here: on the devices each would be a program to compile.
  """
  for tensor, name in tensor_names.living_names():
    if tensor.device.type == 'xla' and tensor.is_floating_point():
      yield name, float(tensor.detach().cpu().abs().float().mean())


def main(arguments: list[str]) -> None:
  path, *of_script = arguments
  is_module = of_script[0] == '-m'
  with open(path, encoding='utf-8') as file:
    changed, has_values = json.load(file)
  priorities = {
      group: {
          int(dim): level for dim, level in by_dim.items()
      } for group, by_dim in (changed or {}).items()
  }
  if changed is not None:  # What it prints is known.
    with open(f'{path}.log', 'wb') as log:
      os.dup2(log.fileno(), 1)
      os.dup2(log.fileno(), 2)

  def change(compilation: Any, rest: door.Compiler) -> None:
    if priorities and compilation.format == 'hlo':
      compilation.program = retell(compilation.program, priorities)
    rest(compilation)

  if has_values and os.environ.get('PJRT_DEVICE', '').endswith('CPU'):
    # What is moved is known before code is generated, and half of the time.
    flags = os.environ.get('XLA_FLAGS', '')
    os.environ['XLA_FLAGS'] = f'{_NO_OPTIMISATION} {flags}'
  # Of scripts that seed nothing the same data, so that values compare.
  torch.manual_seed(0)
  np.random.seed(0)
  random.seed(0)
  undo = door.wrap(change)
  name, *rest = of_script[is_module:]
  ran = script.run(name, rest, is_module)
  undo()
  moved = [c for program in ran.programs for c in program.collectives or ()]
  answer = dict(
      failure=ran.failure,
      compiled=len(ran.programs),
      nbytes=sum(c.nbytes for c in moved),
      count=sum(c.count for c in moved),
      seconds=sum(program.seconds for program in ran.programs),
      values=dict(_values()) if has_values else {})
  if changed is None:
    answer.update(
        held=ran.held,
        programs=[
            Program(e.program, e.propagation) for e in of_records(ran.programs)
        ])
  with open(path, 'wb') as answered:
    pickle.dump(answer, answered)


if __name__ == '__main__':
  main(sys.argv[1:])
