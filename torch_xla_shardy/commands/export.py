"""Parses `export`."""

from __future__ import annotations

from ..parser import Parser

SUMMARY = "write a script's programs as StableHLO"
DESCRIPTION = '''
Runs a script, and writes each program that it compiled as StableHLO, with its
shardings and priorities in Shardy's dialect. A file beside, with .json behind
its name, says which argument and result is what.
'''
EPILOG = '''
The script runs as it would without this, on the devices that it finds, with
Shardy on.
'''
ENDS = {
    0: 'if programs were written',
    2: 'for wrong usage, or if there was nothing to write',
    3: 'if the script failed (what it compiled until then is written)',
}
IMPLEMENTATION = 'torch_xla.shardy.exported_script'


def add_options(parser: Parser) -> None:
  parser.add_argument(
      '--folder',
      default='stablehlo',
      metavar='FOLDER',
      help='where the files go; made if need be (default: %(default)s)')
  parser.add_argument(
      '--form',
      choices=('sdy', 'attributes', 'plain'),
      default='sdy',
      help="Shardy's dialect, attributes as older plugins read them, or no "
      'shardings (default: %(default)s)')
  parser.add_argument(
      '--artifact',
      nargs='?',
      const='',
      metavar='VERSION',
      help='write portable artifacts, .mlirbc, of a version such as 1.9.0, in '
      'place of text (default: one that consumers of the last twelve weeks read)'
  )
  parser.add_quiet('do not name the files')
  parser.add_script()
