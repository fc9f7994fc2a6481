"""Parses `explain`."""

from __future__ import annotations

from ..parser import Parser

SUMMARY = "say why a script's tensors are split as they are"
DESCRIPTION = '''
Runs a script, and explains how Shardy split the programs that it compiled.
'''
EPILOG = '''
The script runs as it would without this, on the devices that it finds, with
Shardy on. Parameters have the names that their modules give them, other marked
tensors that of the line, unless torch_xla.shardy.name_tensors names them.
'''
ENDS = {
    0: 'if programs were explained',
    1: 'if --no-implicit-collectives found some',
    2: 'for wrong usage, or if there was nothing to explain',
    3: 'if the script failed (what it compiled until then is explained)',
}
IMPLEMENTATION = 'torch_xla.shardy.explained_script'


def add_options(parser: Parser) -> None:
  parser.option(
      '--tensor', 'GLOB',
      'show the tensors, too, whose names match: their shardings, and the '
      'way that each axis came')
  parser.add_argument(
      '--why-not',
      nargs=2,
      metavar=('TENSOR', 'SPEC'),
      help="whether a tensor, as --tensor shows it, can be split so ('(None, "
      '"model")\'), who has its place, and the price')
  parser.option(
      '--whole', 'BYTES',
      'show computed tensors of that size that each device has whole')
  parser.add_reports('html')
  parser.option(
      '--no-implicit-collectives', 'BYTES',
      'fail if two annotations disagree so that so many bytes have to move, '
      'as the guard of this name does')
  parser.add_script()
