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

from torch_xla.distributed.spmd.policy import ShardingPolicy
from torch_xla.distributed.spmd.policy.applied import KEEP_VARIABLE
from torch_xla.shardy.gate import ci, golden, requirements
from torch_xla.shardy.process_environment import interpreter_flags

from . import diff, differences, quantities
from .golden import TOOL

_EPILOG = '''
The script runs as it would alone, and calls nothing of this command; the models
that it moves to a device stay alive until the audit. When it has ended, its
model is held to --policy, or else to the policy that it applied itself,
ShardingPolicy.load('policy.toml').apply(model, mesh), or else to its own marks.
Compiled programs are only seen with XLA_USE_SHARDY=1 (the script may set it
before it imports torch_xla).

--diff compares what --json or --update-golden wrote of two runs, and runs
nothing.

Exit status: 0 without differences; 1 with differences; 2 for wrong usage, or a
script that left nothing to audit; 3 for a script that failed.
'''
# Imported by nobody: it is the process that the script runs in.
_RUNNING = os.path.join(os.path.dirname(__file__), 'running.py')


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
      prog='python -m torch_xla.distributed.spmd.audit',
      usage='%(prog)s (SCRIPT | --diff OLD NEW) [options] [-- ARGUMENTS...]',
      description='Runs a script, then compares the sharding policy, the '
      'marks, the stored placements and the compiled programs of its model.',
      epilog=_EPILOG,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      'script',
      nargs='?',
      metavar='SCRIPT',
      help='a Python file; what follows -- are its arguments')
  parser.add_argument(
      '--policy',
      metavar='FILE',
      help='the policy, as TOML, that the model is held to (default: the one '
      'that was applied to it, or its own marks)')
  parser.add_argument(
      '--capture',
      metavar='FILE',
      help='write the policy that the model has in the end, as TOML')
  parser.add_argument(
      '--tolerance',
      metavar='BYTES|PERCENT%',
      help='fail if all devices together hold more than this beyond one copy '
      "of each tensor, or than this part of one copy of all, as '2%%' "
      '(default: no limit)')
  parser.add_argument(
      '--diff',
      nargs=2,
      metavar=('OLD', 'NEW'),
      help='show by cause what differs between two audits, and stop')
  ci.add_options(parser)
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
  if options['require'] == ['help']:
    print(f'Quantities: {", ".join(quantities.known())}.')
    sys.exit(0)
  if bool(options['diff']) == bool(options['script']):
    parser.error('give a SCRIPT, or --diff OLD NEW')
  if options['diff']:
    try:
      text, status = diff.text(*options['diff'])
    except golden.GoldenFileError as e:
      parser.error(str(e))
    print(text)
    sys.exit(status)
  if not os.path.isfile(options['script']):
    parser.error(f'there is no script {options["script"]!r}')
  wrong = ci.misused(options)
  if wrong:
    parser.error(wrong)
  try:
    differences.allowed(options['tolerance'], 0)
    if options['policy']:
      ShardingPolicy.load(options['policy'])
    if options['golden'] and not options['update_golden']:
      golden.read(options['golden'], TOOL).only(options['golden_sections'])
    for text in options['require']:
      requirements.parse(text, quantities.named)
  except (OSError, ValueError) as e:
    parser.error(str(e))
  for key in ('policy', 'golden', 'json', 'html', 'capture', 'junit'):
    if options[key]:
      # The script may change the directory.
      options[key] = os.path.abspath(options[key])
  for key in ('golden', 'json', 'html', 'capture', 'junit'):
    if options[key] and not os.path.isdir(os.path.dirname(options[key])):
      parser.error(f'--{key}: no directory for {options[key]}')
  sys.stdout.flush()
  sys.stderr.flush()
  os.execve(sys.executable, [
      sys.executable, *interpreter_flags(), _RUNNING,
      json.dumps({
          **options, 'arguments': theirs
      })
  ], {
      **os.environ, KEEP_VARIABLE: '1'
  })


if __name__ == '__main__':
  main()
