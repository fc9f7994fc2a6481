"""Parses `aot`."""

from __future__ import annotations

from ..parser import count, input_file, Parser

SUMMARY = 'compile a script for TPUs that are not there'
USAGE = ('%(prog)s --topology NAME [OPTIONS...]\n'
         '       (SCRIPT | -m MODULE) [ARGUMENTS...]')
DESCRIPTION = '''
Runs a script unchanged for TPUs that are not there. The TPU's own compiler
compiles each program for the topology; nothing is computed, and values that are
read are zeros. Then reports whether the programs fit, how they are partitioned,
what they move, and how long the compiler thinks that they take.
'''
EPILOG = '''
The environment is that of a real run: XLA_USE_SHARDY=1, LIBTPU_INIT_ARGS and
all else count, and TPU_LIBRARY_PATH names another libtpu. --require takes
'fits', too.
'''
ENDS = {
    0: 'if all programs fit and all that is required holds',
    1: 'if not',
    2: 'for wrong usage or a compiler that is missing',
}
IMPLEMENTATION = 'torch_xla.shardy.aot.command'
# The script's process has its own; this one computes nothing, and would say that
# it chose this.
ENVIRONMENT = {'PJRT_DEVICE': 'CPU'}


def add_options(parser: Parser) -> None:
  parser.add_script(required=False)
  parser.repeated_option(
      '--topology', 'NAME',
      "such as v5e:16x16, v5p-128 or '2*v6e:8x8'; given several times, "
      'the script is run for each and the reports are compared')
  parser.flag('--topologies', 'list what is known, and stop')
  parser.option(
      '--steps', 'N',
      'stop the script after N steps: for loops that wait for a value', count,
      0)
  parser.flag('--strict', 'reading a value is an error instead of zeros')
  parser.option('--host', 'N', 'play the process of host N (default: 0)', count,
                0)
  parser.flag(
      '--one-process',
      'tell the script that it is the only process, for those that wait '
      'for others, such as checkpoint managers; the default is the truth, a '
      'process per host')
  parser.option(
      '--largest', 'NAME=LOW..HIGH',
      "find the largest that fits of the values of the script's argument "
      '--NAME, the multiples of LOW; each try runs the script')
  parser.flag('--largest-batch',
              'the same for the batch size that the script is given')
  parser.add_reports('html', 'junit')
  parser.repeated_option('--compare', 'FILE',
                         'show the reports of an earlier --json beside these',
                         input_file)
  parser.add_require()
