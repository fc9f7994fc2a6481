"""Runs a script, and explains how Shardy split the programs that it compiled."""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
from typing import Optional

_EPILOG = """\
The script runs as it would without this, on the devices that it finds, with
Shardy on. Names of parameters are those of torch_xla.shardy.name_tensors.

Exit status: 0 if programs were explained, 1 if the script failed (what it
compiled until then is explained), 2 if there was nothing to explain.
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
  parser.add_argument('--json', metavar='FILE', help='write it all there, too')
  parser.add_argument('script', help='a Python script')
  parser.add_argument('arguments', nargs=argparse.REMAINDER, help='its own')
  options = parser.parse_args(arguments)
  if not os.path.isfile(options.script):
    parser.error(f'{options.script}: there is no such file')
  import torch_xla
  from torch_xla import runtime

  from .explanation import as_json, of_records
  from .stablehlo import dialects
  dialects.check_installed('Shardy is asked by way of StableHLO')
  if torch_xla.shardy.current_mode() is not torch_xla.shardy.Mode.SHARDY:
    runtime.use_shardy()
  failed = False
  with torch_xla.shardy.record() as records:
    sys.argv[:] = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    try:
      runpy.run_path(options.script, run_name='__main__')
    except SystemExit as e:
      failed = e.code not in (None, 0)
    except Exception:  # pylint: disable=broad-except
      sys.excepthook(*sys.exc_info())
      failed = True
  explained = []
  for one in of_records(records):
    for line in one.lines():
      print(line, flush=True)
    print()
    if options.tensor:
      print(one.tensors(options.tensor), end='\n\n')
    explained.append(one)
  if options.json:
    with open(options.json, 'w', encoding='utf-8') as file:
      json.dump([as_json(one) for one in explained], file, indent=1)
  if failed:
    print(f'{options.script} failed: what it compiled until then is above')
    return 1
  if not explained:
    print(
        f'{options.script} compiled {len(records)} programs, and Shardy was told '
        'of no annotated tensor in any: mark some with xs.mark_sharding, and '
        'see that the mode is Shardy')
    return 2
  return 0


if __name__ == '__main__':
  sys.exit(main())
