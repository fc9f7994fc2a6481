"""Runs a script in a process of its own, and audits it when it has ended.

Executed as a file: importing this package imports torch_xla, which is too early
for a script that sets the runtime's variables itself.
"""

from __future__ import annotations

import functools
import json
import sys
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch_xla_shardy import script_process
from torch_xla_shardy.parser import status_of

# The same as `standard.Moved`, which is not imported before the script has run.
Moved = list[tuple[torch.nn.Module, list[tuple[str, ...]]]]


def keep_moved() -> Moved:
  """Collects, from now on, each model that `.to` is called on."""
  moved: Moved = []
  to = torch.nn.Module.to

  @functools.wraps(to)
  def keep(self: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    if 'torch_xla' in sys.modules and not moved:
      from torch_xla.shardy import script_names
      script_names.ScriptNames()
    if all(model is not self for model, _ in moved):
      moved.append((self, _tied(self)))
    return to(self, *args, **kwargs)

  torch.nn.Module.to = keep
  return moved


def keep_stepped() -> dict[int, torch.optim.Optimizer]:
  """Collects, from now on, each optimizer that takes a step, by id."""
  stepped: dict[int, torch.optim.Optimizer] = {}
  register_optimizer_step_post_hook(lambda optimizer, args, kwargs: stepped.
                                    update({id(optimizer): optimizer}))
  return stepped


def _tied(model: torch.nn.Module) -> list[tuple[str, ...]]:
  """The names of each weight that has several."""
  names: dict[int, list[str]] = {}
  for name, t in model.named_parameters(remove_duplicate=False):
    names.setdefault(id(t), []).append(name)
  return [tuple(some) for some in names.values() if len(some) > 1]


def main() -> int:
  """Runs the script that the first argument tells of; the exit status."""
  options = json.loads(sys.argv[1])
  script = options['script']
  moved, options['optimizers'] = keep_moved(), keep_stepped()
  # What the script left is alive as long as its globals are.
  options['globals'], failure = script_process.run(script, options['arguments'],
                                                   options['is_module'])
  if failure:
    print(f'audit: {script} failed ({failure}): no audit', file=sys.stderr)
    return 3
  from torch_xla.distributed.spmd.audit import after_script
  return after_script.finish(options, moved)


if __name__ == '__main__':
  sys.exit(status_of(main))
