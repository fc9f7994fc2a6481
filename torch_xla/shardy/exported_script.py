"""Does `torch-xla-shardy export`: a script's programs as StableHLO."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys

from torch_xla_shardy.parser import output_file, Parser

_NO_FILE_NAME = re.compile(r'[^\w.-]+')


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Runs the command; returns its exit status."""
  from . import export_stablehlo
  from .errors import DoorError
  # The script may change the directory.
  start, folder = os.getcwd(), os.path.abspath(options.folder)
  suffix = '.mlir' if options.artifact is None else '.mlirbc'
  try:
    from .explanation import script
    from .stablehlo import exports
    exports.version_of(options.artifact or None, options.artifact is None)
    with contextlib.suppress(OSError):  # The next line says why.
      os.makedirs(folder, exist_ok=True)
    output_file(os.path.join(folder, f'000{suffix}'))
    ran = script.run(options.script, options.arguments, options.is_module)
    for number, program in enumerate(ran.programs):
      name = _NO_FILE_NAME.sub('_', program.name)
      path = os.path.join(folder, f'{number:03}-{name}{suffix}')
      export_stablehlo(
          program, path, form=options.form, version=options.artifact or None)
      if not options.quiet:
        print(os.path.relpath(path, start), flush=True)
  except (argparse.ArgumentTypeError, DoorError, ImportError, OSError,
          ValueError) as e:
    print(f'error: {e}', file=sys.stderr)
    return 2
  if ran.failure:
    print(
        f'error: {options.script} failed ({ran.failure})' +
        (f': what it compiled until then is in {folder}'
         if ran.programs else ''),
        file=sys.stderr)
    return 3
  if not ran.programs:
    print(
        f'error: {options.script} compiled no program: have it compute '
        'something on the device xla',
        file=sys.stderr)
    return 2
  return 0
