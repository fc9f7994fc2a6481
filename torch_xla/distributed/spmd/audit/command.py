"""Does `torch-xla-shardy audit`: audits a script's model.

Importing this package imports torch_xla, which is too early for a script that
sets the runtime's variables itself. So this process only checks the arguments
and then becomes another one that runs the script first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from torch_xla.distributed.spmd.policy import ShardingPolicy
from torch_xla.distributed.spmd.policy.applied import KEEP_VARIABLE
from torch_xla.shardy.gate import requirements
from torch_xla.shardy.process_environment import interpreter_flags
from torch_xla_shardy.parser import Parser

from . import differences, golden, quantities

# Imported by nobody: it is the process that the script runs in.
_RUNNING = os.path.join(os.path.dirname(__file__), 'running.py')


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Checks the arguments and becomes the process that runs the script."""
  if options.require == ['help']:
    print(f'Quantities: {", ".join(quantities.known())}.')
    return 0
  parser.need_script(options)
  try:
    differences.allowed(options.tolerance, 0)
    if options.policy:
      ShardingPolicy.load(options.policy)
    if options.golden:
      golden.read(options.golden)
    for text in options.require:
      requirements.parse(text, quantities.named)
  except (OSError, ValueError) as e:
    parser.error(str(e))
  sys.stdout.flush()
  sys.stderr.flush()
  os.execve(sys.executable, [
      sys.executable, *interpreter_flags(), _RUNNING,
      json.dumps(vars(options))
  ], {
      **os.environ, KEEP_VARIABLE: '1'
  })
