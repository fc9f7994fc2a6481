"""Plants small faults in a copy of the checkout, and has tests find them."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
import signal
import sys
import tempfile
import time

ROOT = Path(__file__).resolve().parents[2]
if __name__ == '__main__':
  sys.path[0] = str(ROOT)

from infra.errors import BuildError, Say
from infra.mutants import trials
from infra.mutants.bench import Bench, warm
from infra.mutants.faults import Fault, load, named

_EPILOG = """\
Each fault of infra/mutants/faults.toml is planted in a copy of the checkout,
which is thrown away, and the test that the table names runs there, on the
installed torch_xla with the copy's files. First all these tests run without a
fault, and have to pass. Run it with .venv's Python, after bash infra/test.sh
or infra/develop.sh.

A fault survives if its test passes. A test that fails for another reason than
what it tests (an import or a name that is not there, an error outside of the
test's own call, no end) is an error, as is a text that a file does not have
exactly once: the table then has to follow the code.

Exit status: 0 if every fault was found, 1 if one survives, 2 on an error.
"""
_AT_A_TIME = 2


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
  """Runs the command line on the checkout `root`; returns the exit status."""
  parser = argparse.ArgumentParser(
      prog='python -m infra.mutants',
      description=__doc__,
      epilog=_EPILOG,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      '--only',
      metavar='NAME',
      action='append',
      default=[],
      help='plant this fault alone; may be given more than once')
  options = parser.parse_args(arguments)
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
  say = functools.partial(print, flush=True)
  try:
    faults = named(load(root), options.only)
    with tempfile.TemporaryDirectory(
        prefix='mutants-', ignore_cleanup_errors=True) as folder:
      survivors = try_all(faults, root, Path(folder), say)
  except (BuildError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  except KeyboardInterrupt:
    print('error: interrupted', file=sys.stderr)
    return 2
  for fault in survivors:
    say(f'\n{fault.name} survives: {fault.test} passes where in {fault.file}\n'
        f'{fault.find}\nis\n{fault.put}')
  say(f'{len(faults) - len(survivors)} of {len(faults)} faults were found')
  return 1 if survivors else 0


def try_all(faults: list[Fault], root: Path, folder: Path,
            say: Say) -> list[Fault]:
  """Plants all faults, one after another; returns those that survive.

  Raises:
    BuildError: the table does not fit the checkout or its tests.
  """
  benches = [Bench(root, folder / str(n)) for n in range(_AT_A_TIME)]
  for fault in faults:
    benches[0].plant(fault)
    benches[0].mend(fault)
  if (root / 'torch_xla').is_dir():
    warm()
  start = time.monotonic()
  for ended in trials.run(trials.without_faults(faults), benches):
    trials.check_pass(ended)
  say(f'without a fault all tests pass ({time.monotonic() - start:.0f} s)')
  survivors = []
  planted = [trials.Trial((fault.test,), fault) for fault in faults]
  for count, ended in enumerate(trials.run(planted, benches), 1):
    fault = ended.trial.fault
    if survives := trials.survives(ended):
      survivors.append(fault)
    say(f'[{count}/{len(faults)}] {"SURVIVES" if survives else "found"} '
        f'{fault.name} ({ended.seconds:.1f} s)')
  return survivors


if __name__ == '__main__':
  sys.exit(main())
