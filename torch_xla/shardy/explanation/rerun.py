"""Runs a script with other priorities, and says what its programs became.

For `suggest`, which has it run in a process of its own: RETOLD is a JSON file
with the priorities by group and dimension, and gets the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import dataclasses
import json
import random
import sys
from typing import Any, Optional

import numpy as np
import torch

from . import script
from .. import door, switch, tensor_names
from ..annotate import call_target
from ..annotate.annotation import Annotation
from ..hlo import messages
from ..hlo.protos import HloModuleProto
from ..layers import group_of
from ..mode import Mode

# Priorities by group and dimension; groups that are not here stay so.
_Priorities = Mapping[str, Mapping[int, Optional[int]]]


def retell(program: bytes, priorities: _Priorities) -> bytes:
  """A program in HLO with other priorities in its bindings."""
  module = messages.parse(HloModuleProto, program)
  names_of = switch.route(Mode.SHARDY).surroundings.names_of
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
  """The name of each floating-point tensor on the devices, and its mean."""
  for tensor, name in tensor_names.living_names():
    if tensor.device.type == 'xla' and tensor.is_floating_point():
      yield name, float(tensor.detach().abs().float().mean().cpu())


def main(arguments: list[str]) -> None:
  path, *of_script = arguments
  is_module = of_script[0] == '-m'
  with open(path, encoding='utf-8') as file:
    priorities = {
        group: {
            int(dim): level for dim, level in by_dim.items()
        } for group, by_dim in json.load(file).items()
    }

  def change(compilation: Any, rest: door.Compiler) -> None:
    if priorities and compilation.format == 'hlo':
      compilation.program = retell(compilation.program, priorities)
    rest(compilation)

  # Of scripts that seed nothing the same data, so that values compare.
  torch.manual_seed(0)
  np.random.seed(0)
  random.seed(0)
  undo = door.wrap(change)
  name, *rest = of_script[is_module:]
  ran = script.run(name, rest, is_module)
  undo()
  moved = [c for program in ran.programs for c in program.collectives or ()]
  with open(path, 'w', encoding='utf-8') as file:
    json.dump(
        dict(
            failure=ran.failure,
            nbytes=sum(c.nbytes for c in moved),
            count=sum(c.count for c in moved),
            seconds=sum(program.seconds for program in ran.programs),
            values=dict(_values())), file)


if __name__ == '__main__':
  main(sys.argv[1:])
