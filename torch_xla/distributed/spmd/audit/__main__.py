"""`python -m torch_xla.distributed.spmd.audit`: audits a script's model.

Importing this package imports torch_xla, which is too early for a script that
sets the runtime's variables itself. So this process only checks the arguments
and then becomes another one that runs the script first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import NoReturn, Optional

from torch_xla.distributed.spmd.policy import PolicyError, ShardingPolicy
from torch_xla.distributed.spmd.policy.applied import KEEP_VARIABLE
from torch_xla.shardy.annotate.priority import PriorityError
from torch_xla.shardy.process_environment import interpreter_flags

from . import golden

_EPILOG = '''
The script runs as it would alone and calls nothing of this command: it applies
its policy itself, ShardingPolicy.load('policy.toml').apply(model, mesh), to one
model, and takes at least one step. When it has ended, that model is held to
--policy. Compiled programs are only seen with XLA_USE_SHARDY=1 (the script may
set it before it imports torch_xla).

Exit status: 0 without differences; 1 with differences; 2 for wrong usage, for a
script that failed, or one that applied no policy.
'''
# Runs the script in a process that has not imported torch_xla yet.
_RUN = '''
import json, os, runpy, sys, traceback
options = json.loads(sys.argv[1])
script = options['script']
sys.argv[:] = [script, *options['arguments']]
sys.path[0] = os.path.dirname(os.path.abspath(script))
status = 0
try:
  runpy.run_path(script, run_name='__main__')
except SystemExit as e:
  status = e.code
  if status and not isinstance(status, int):
    print(status, file=sys.stderr)
except BaseException:
  traceback.print_exc()
  status = 1
if status:
  print(f'audit: {script} failed: no audit', file=sys.stderr)
  sys.exit(2)
from torch_xla.distributed.spmd.audit import __main__ as command
sys.exit(command.finish(options))
'''


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
      prog='python -m torch_xla.distributed.spmd.audit',
      usage='%(prog)s SCRIPT --policy FILE [options] [-- ARGUMENTS...]',
      description='Runs a script, then compares the sharding policy, the '
      'marks, the stored placements and the compiled programs of its model.',
      epilog=_EPILOG,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      'script',
      metavar='SCRIPT',
      help='a Python file; what follows -- are its arguments')
  parser.add_argument(
      '--policy',
      required=True,
      metavar='FILE',
      help='the policy, as TOML, that the model is held to')
  parser.add_argument(
      '--tolerance',
      type=int,
      metavar='BYTES',
      help='fail if all devices together hold more than this beyond one copy '
      'of each tensor (default: no limit)')
  parser.add_argument(
      '--golden',
      metavar='FILE',
      help='fail if anything differs from this file, an earlier --json')
  parser.add_argument('--json', metavar='FILE', help='write the report as JSON')
  parser.add_argument(
      '--html', metavar='FILE', help='write the report as one HTML page')
  return parser


def main(arguments: Optional[list[str]] = None) -> NoReturn:
  """Checks the arguments and becomes the process that runs the script."""
  arguments = sys.argv[1:] if arguments is None else arguments
  own, theirs = arguments, []
  if '--' in arguments:
    at = arguments.index('--')
    own, theirs = arguments[:at], arguments[at + 1:]
  parser = _parser()
  options = vars(parser.parse_args(own))
  if not os.path.isfile(options['script']):
    parser.error(f'there is no script {options["script"]!r}')
  if options['tolerance'] is not None and options['tolerance'] < 0:
    parser.error('--tolerance is a number of bytes, 0 or more')
  try:
    ShardingPolicy.load(options['policy'])
    if options['golden']:
      golden.read(options['golden'])
  except (OSError, PolicyError, golden.GoldenFileError) as e:
    parser.error(str(e))
  for key in ('policy', 'golden', 'json', 'html'):
    if options[key]:
      # The script may change the directory.
      options[key] = os.path.abspath(options[key])
  for key in ('json', 'html'):
    if options[key] and not os.path.isdir(os.path.dirname(options[key])):
      parser.error(f'--{key}: no directory for {options[key]}')
  sys.stdout.flush()
  sys.stderr.flush()
  os.execve(sys.executable, [
      sys.executable, *interpreter_flags(), '-c', _RUN,
      json.dumps({
          **options, 'arguments': theirs
      })
  ], {
      **os.environ, KEEP_VARIABLE: '1'
  })


def finish(options: dict) -> int:
  """Audits what the script left; the exit status."""
  import torch_xla
  from torch_xla.distributed.spmd.policy import applied

  from . import examine

  models = applied.kept_models()
  if len(models) != 1:
    print(
        f'audit: {options["script"]} applied ' +
        ('no policy: it has to call '
         "ShardingPolicy.load('policy.toml').apply(model, mesh)" if not models
         else f'policies to {len(models)} models, and this command audits one: '
         'call audit(model, policy) of torch_xla.distributed.spmd.audit in the '
         'script'),
        file=sys.stderr)
    return 2
  torch_xla.sync(wait=True)
  try:
    report = examine(
        models[0],
        ShardingPolicy.load(options['policy']),
        tolerance=options['tolerance'],
        golden=options['golden'])
    print(report)
    for key, text in (('json', report.to_json), ('html', report.to_html)):
      if options[key]:
        with open(options[key], 'w', encoding='utf-8') as f:
          f.write(text())
  except (OSError, PolicyError, PriorityError, golden.GoldenFileError) as e:
    print(f'audit: {e}', file=sys.stderr)
    return 2
  return 0 if report.ok else 1


if __name__ == '__main__':
  main()
