"""Parses `suggest`."""

from __future__ import annotations

import argparse
import re

from ..parser import output_file, Parser, positive

SUMMARY = 'search the priorities with which a script moves least'
DESCRIPTION = '''
Runs a script, and searches the priorities with which it would move least. What
is in conflict is ordered in other ways, and Shardy plans each program anew; the
best few are compiled and run, as the script is, in processes of their own, and
what they compute is compared.
'''
EPILOG = '''
Programs count once each, however often they run: start the script with its
training step, and leave out what is only to set it up. Parameters have the
names that their modules give them, other marked tensors that of the line, unless
torch_xla.shardy.name_tensors names them; what has no name is left as it is.
xr.use_spmd(auto=True) has no row: ahead of time libtpu gets programs for one
device then.
'''
ENDS = {
    0: 'if priorities were found that move less',
    1: "if nothing moves less than the script's own",
    2: 'for wrong usage, or if there is nothing to order',
}
IMPLEMENTATION = 'torch_xla.shardy.suggested_priorities'
_UNITS = {'': 1, 's': 1, 'm': 60, 'h': 3600}


def add_options(parser: Parser) -> None:
  parser.option(
      '--budget', 'TIME',
      'CPU time for the search, without runs of the script: 90, 90s, 10m (60)',
      _seconds, 60)
  parser.option('--best', 'N', 'how many are compiled and run (3)', positive, 3)
  parser.option(
      '--topology', 'NAME', 'compile for these TPUs, ahead of time, and show '
      "the compiler's cycles and memory: v5p:4x4x4", str, '')
  parser.repeated_option(
      '--beside', 'COMMAND', 'one more row: another script with its arguments, '
      'such as one with constraints set by hand')
  parser.option(
      '--resume', 'FILE', 'keep what ran, and do not run it again; remove the '
      'file when what a script imports changes', output_file)
  parser.option('--write', 'FILE', 'write the best as a policy in TOML',
                output_file)
  parser.add_quiet('do not say how far it is')
  parser.add_script()


def _seconds(text: str) -> float:
  match = re.fullmatch(r'(\d+|\d*\.\d+)([smh]?)', text)
  seconds = float(match[1]) * _UNITS[match[2]] if match else 0.
  if not seconds:
    raise argparse.ArgumentTypeError(f'{text!r} is no time as 90, 90s, 10m are')
  return seconds
