"""Does `torch-xla-shardy explain`: why programs are split as they are."""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import tempfile
from typing import Any

from torch_xla_shardy.parser import Parser, write

from .gate import sizes


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Runs the command; returns its exit status."""
  spec = None
  try:
    whole, moved = (
        size and sizes.parse(size)
        for size in (options.whole, options.no_implicit_collectives))
  except sizes.SizeError as e:
    parser.error(str(e))
  options.whole, options.no_implicit_collectives = whole, moved
  if options.why_not:
    try:
      spec = ast.literal_eval(options.why_not[1])
    except (ValueError, SyntaxError):
      parser.error(f'--why-not: {options.why_not[1]} is no partition spec, as '
                   "(None, 'model') is")
  from .errors import DoorError
  try:
    with tempfile.TemporaryDirectory() as shown:
      return _explain(options, spec, shown)
  except (DoorError, ImportError) as e:
    print(f'error: {e}', file=sys.stderr)
    return 2


def _explain(options: argparse.Namespace, spec: Any, shown: str) -> int:
  from .explanation import as_json, backend, of_records, page, script
  backend.show(os.environ, shown)
  ran = script.run(options.script, options.arguments, options.is_module)
  explained: list[Any] = []
  refusals: dict[str, None] = {}
  shown_conflicts: set[str] = set()
  is_answered = not options.why_not
  for explanation in of_records(ran.programs, shown):
    if not options.quiet:
      for line in explanation.lines(shown_conflicts):
        print(line, flush=True)
      print()
    if options.tensor:
      print(explanation.tensors(options.tensor), end='\n\n')
    if options.whole is not None:
      print(explanation.whole(options.whole), end='\n\n')
    if options.why_not:
      try:
        print(explanation.why_not(options.why_not[0], spec), end='\n\n')
        is_answered = True
      except ValueError as e:
        refusals[str(e)] = None
    explained.append(explanation)
  if options.json:
    write(options.json, json.dumps([*map(as_json, explained)], indent=1))
  if options.html:
    write(options.html, page.html(explained))
  if ran.failure:
    print(
        f'{options.script} failed ({ran.failure})' +
        (': what it compiled until then is above'
         if explained and not options.quiet else ''),
        file=sys.stderr)
    return 3
  if not explained:
    print(f'{options.script} compiled {len(ran.programs)} programs, and Shardy '
          'was told of no annotated tensor in any: mark some with '
          'xs.mark_sharding, and see that the mode is Shardy')
    return 2
  if not is_answered:
    for refusal in refusals:
      print(f'error: --why-not: {refusal}', file=sys.stderr)
    return 2
  if options.no_implicit_collectives is None:
    return 0
  from .guards import implicit
  moved = list(implicit.moved(ran.programs, options.no_implicit_collectives))
  for line in moved:
    print(f'implicit collectives: {line}')
  return 1 if moved else 0
