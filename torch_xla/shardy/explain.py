"""Runs a script, and explains how Shardy split the programs that it compiled."""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import tempfile
from typing import Any, Optional

_EPILOG = """\
The script runs as it would without this, on the devices that it finds, with
Shardy on. Parameters have the names that their modules give them; name others,
such as batches, with torch_xla.shardy.name_tensors.

Exit status: 0 if programs were explained, 1 if --no-implicit-collectives found
some, 2 if there was nothing to explain, 3 if the script failed (what it compiled
until then is explained).
"""


def main(arguments: Optional[list[str]] = None) -> int:
  """Runs the command line; returns the exit status."""
  parser = argparse.ArgumentParser(
      prog='python -m torch_xla.shardy.explain',
      description=__doc__,
      epilog=_EPILOG,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      '--tensor',
      metavar='GLOB',
      help='show the tensors, too, whose names match: their shardings, and the '
      'way that each axis came')
  parser.add_argument(
      '--why-not',
      nargs=2,
      metavar=('TENSOR', 'SPEC'),
      help="whether a tensor, as --tensor shows it, can be split so ('(None, "
      '"model")\'), who has its place, and the price')
  parser.add_argument(
      '--whole',
      metavar='BYTES',
      type=int,
      help='show computed tensors of that size that each device has whole')
  parser.add_argument('--json', metavar='FILE', help='write it all there, too')
  parser.add_argument(
      '--html', metavar='FILE', help='write a page, with a way for each axis')
  parser.add_argument(
      '--graph', metavar='FILE', help='write the programs for Model Explorer')
  parser.add_argument(
      '--against',
      metavar='FILE',
      help='show what differs from what --json wrote, at another commit or with '
      'other priorities')
  parser.add_argument(
      '--no-implicit-collectives',
      metavar='BYTES',
      type=int,
      help='fail if two annotations disagree so that so many bytes have to move, '
      'as the guard of this name does')
  parser.add_argument('script', help='a Python script')
  parser.add_argument('arguments', nargs=argparse.REMAINDER, help='its own')
  options = parser.parse_args(arguments)
  if not os.path.isfile(options.script):
    parser.error(f'{options.script}: there is no such file')
  spec = before = None
  if options.why_not:
    try:
      spec = ast.literal_eval(options.why_not[1])
    except (ValueError, SyntaxError):
      parser.error(f'--why-not: {options.why_not[1]} is no partition spec, as '
                   "(None, 'model') is")
  if options.against:
    try:
      with open(options.against, encoding='utf-8') as file:
        before = json.load(file)
      if not isinstance(before, list) or not all(
          isinstance(one, dict) and 'conflicts' in one for one in before):
        raise ValueError('not what --json writes')
    except (OSError, ValueError) as e:
      parser.error(f'--against: {options.against}: {e}')
  if min(options.whole or 0, options.no_implicit_collectives or 0) < 0:
    parser.error('a size is not negative')
  for path in filter(None, (options.json, options.html, options.graph)):
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or '.'):
      parser.error(f'{path}: no file can be written there')
  from .errors import DoorError
  try:
    with tempfile.TemporaryDirectory() as shown:
      return _explain(options, spec, before, shown)
  except (DoorError, ImportError) as e:
    print(f'error: {e}', file=sys.stderr)
    return 2
  except BrokenPipeError:  # As of `| head`.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _explain(options: argparse.Namespace, spec: Any, before: Any,
             shown: str) -> int:
  from .explanation import (as_json, backend, comparison, graph, of_records,
                            page, script)
  backend.show(os.environ, shown)
  ran = script.run(options.script, options.arguments)
  explained = []
  for one in of_records(ran.programs, shown):
    for line in one.lines():
      print(line, flush=True)
    print()
    if options.tensor:
      print(one.tensors(options.tensor), end='\n\n')
    if options.whole is not None:
      print(one.whole(options.whole), end='\n\n')
    if options.why_not:
      try:
        print(one.why_not(options.why_not[0], spec), end='\n\n')
      except ValueError as e:
        print(f'--why-not: {e}', end='\n\n')
    explained.append(one)
  told = None
  if options.json or before is not None:
    told = [as_json(one) for one in explained]
  if before is not None:
    print('\n'.join(comparison.lines(before, told)), end='\n\n')
  if options.json:
    _write(options.json, json.dumps(told, indent=1))
  if options.html:
    _write(options.html, page.html(explained))
  if options.graph:
    _write(options.graph, json.dumps(graph.collection(explained)))
  if ran.has_failed:
    print(f'{options.script} failed: what it compiled until then is above')
    return 3
  if not explained:
    print(f'{options.script} compiled {len(ran.programs)} programs, and Shardy '
          'was told of no annotated tensor in any: mark some with '
          'xs.mark_sharding, and see that the mode is Shardy')
    return 2
  if options.no_implicit_collectives is None:
    return 0
  from .guards import implicit
  moved = list(implicit.moved(ran.programs, options.no_implicit_collectives))
  for line in moved:
    print(f'implicit collectives: {line}')
  return 1 if moved else 0


def _write(path: str, what: str) -> None:
  with open(path, 'w', encoding='utf-8') as file:
    file.write(what)


if __name__ == '__main__':
  sys.exit(main())
