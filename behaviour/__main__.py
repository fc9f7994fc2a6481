"""Does `torch-xla-behaviour`: pytest on these tests, with a verdict."""

from __future__ import annotations

from collections.abc import Sequence
import os
import subprocess
import sys

from . import features
from .suites import TESTS

_QUIET = ('-q', '-p', 'no:cacheprovider', '-p', 'no:unraisableexception',
          '--continue-on-collection-errors', '--tb=no', '-rN')
# Those of pytest that are others here: interrupted, wrong usage, nothing run.
_STATUSES = {2: 130, 4: 2, 5: 2}


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs a command line of pytest's; returns its exit status.

  That is 0 if all that was run holds, 1 with a finding, 2 for wrong usage, or if
  nothing could be judged, 130 if interrupted.
  """
  try:
    status = subprocess.run([
        sys.executable, '-m', 'pytest', *_QUIET, '-c', os.devnull,
        f'--rootdir={TESTS.parent}',
        str(TESTS), *(sys.argv[1:] if arguments is None else arguments)
    ],
                            env=features.environment(),
                            stdin=subprocess.DEVNULL,
                            check=False).returncode
  except KeyboardInterrupt:
    status = 2
  return _STATUSES.get(status, status)


if __name__ == '__main__':
  sys.exit(main())
