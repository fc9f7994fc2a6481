"""Parses `audit`."""

from __future__ import annotations

from ..parser import input_file, output_file, Parser

SUMMARY = "hold a script's model to its sharding policy"
DESCRIPTION = '''
Runs a script, then compares the sharding policy, the marks, the stored
placements and the compiled programs of its model.
'''
EPILOG = '''
The script runs as it would alone, and calls nothing of this command; the models
that it moves to a device stay alive until the audit. When it has ended, its
model is held to --policy, or else to the policy that it applied itself,
ShardingPolicy.load('policy.toml').apply(model, mesh), or else to its own marks.
Compiled programs are only seen with XLA_USE_SHARDY=1 (the script may set it
before it imports torch_xla).
'''
ENDS = {
    0: 'without differences',
    1: 'with differences',
    2: 'for wrong usage, or a script that left nothing to audit',
}
IMPLEMENTATION = 'torch_xla.distributed.spmd.audit.command'


def add_options(parser: Parser) -> None:
  parser.add_script(required=False)
  parser.option(
      '--policy', 'FILE',
      'the policy, as TOML, that the model is held to (default: the one '
      'that was applied to it, or its own marks)', input_file)
  parser.option('--capture', 'FILE',
                'write the policy that the model has in the end, as TOML',
                output_file)
  parser.option(
      '--tolerance', 'BYTES|PERCENT%',
      'fail if all devices together hold more than this beyond one copy '
      "of each tensor, or than this part of one copy of all, as '2%%' "
      '(default: no limit)')
  parser.option(
      '--golden', 'FILE',
      'fail if anything but counts differs from this file, which --json wrote',
      input_file)
  parser.add_require()
  parser.add_reports('html', 'junit')
