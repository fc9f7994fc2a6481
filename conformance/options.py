"""The command's options and help."""

from __future__ import annotations

from . import lines
from .case import Tier
from .shared.parser import Parser

DESCRIPTION = '''
Judges a PJRT plugin by what torch_xla and its users rely on: first what it can
do, measured, then how it behaves. Each case runs in a process of its own, so
that a crash or a hang is a finding.
'''
EPILOG = '''
Variables that the plugin reads are passed on to it. XLA_USE_SHARDY and
XLA_SHARDING_V2 are set as each case needs them. Where torch_xla is not installed,
cases that need it are skipped.
'''
ENDS = {
    0: 'if the plugin conforms',
    2: 'for wrong usage, if all that was asked for was skipped, or if a report '
       'could not be written',
    3: 'if it starts no client here and nothing else was found',
}
IMPLEMENTATION = 'torch_xla_conformance.command'


def add_options(parser: Parser) -> None:
  which = parser.add_mutually_exclusive_group()
  which.add_argument(
      '--plugin', metavar='FILE', help='the library of the plugin')
  which.add_argument(
      '--device',
      metavar='NAME',
      help='or a registered one, by the name in PJRT_DEVICE')
  parser.option('--topology', 'NAME',
                'to compile for without a device (TPU: v5e:2x2)', str, '')
  for name, metavar, help in (
      ('--options', 'NAME=VALUE', 'of its client, with --plugin'),
      ('--only', 'PATTERN',
       "cases to run, as 'donation.*' or 'transfers.types/BF16'"),
      ('--skip', 'PATTERN', 'cases to leave out')):
    parser.option(name, metavar, help, str, [], action='append', nargs='+')
  tiers = parser.add_mutually_exclusive_group()
  tiers.add_argument(
      '--quick',
      dest='tier',
      action='store_const',
      const=Tier.QUICK,
      default=Tier.WHOLE,
      help='cases of a minute alone, one of each kind')
  tiers.add_argument(
      '--all',
      dest='tier',
      action='store_const',
      const=Tier.NIGHTLY,
      help='also what is for nights: each operation in all shardings, and what '
      'takes 9 GB of memory')
  parser.option(
      '--shard', 'I/N',
      'run the I-th of N shares of the parts; which share a part is in '
      'depends on its name alone', lines.shard, (1, 1))
  parser.flag('--list', 'list the cases, and stop')
  parser.option('--jobs', 'N',
                'cases at a time (default: 1, for a device of one process)',
                int, 1)
  parser.option('--timeout', 'SECONDS',
                'of each part of a case (default: 60, more for long ones)',
                float)
  parser.option('--expected-failures', 'FILE',
                'of lines "NAME REASON"; what no longer fails is a finding')
  parser.add_reports('html', 'junit')
