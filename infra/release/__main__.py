"""Makes a release of the checkout, dry unless told to write."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parents[2]
if __name__ == '__main__':
  sys.path[0] = str(ROOT)

from infra.errors import BuildError
from infra.patchset import git
from infra.release.release import make_release, tag_of
from infra.wheel import pins

_EPILOG = """\
Builds the wheels for Python 3.10 to 3.13 from a work tree of the commit that is
checked out, one of them twice, and tries each in a new environment: it installs
the wheel with torch and trains a sharded model. That takes a Python of its
version on the PATH, and the package index; what is not there is named, here and
in the notes. Then come the bills of materials (*.cdx.json), SHA256SUMS, and
NOTES.md with the section of CHANGELOG.md.

All of it is made in build/release/VERSION, and a dry run changes nothing else.
--write copies the files to dist/ and prints which tag to make. It takes a dated
section in CHANGELOG.md, and replaces no wheel in dist/ by another. Nothing is
tagged or pushed.

Exit status: 0 if all is well, what was not tried aside; 1 if not.
"""


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
  """Runs the command line on the checkout `root`; returns the exit status."""
  parser = argparse.ArgumentParser(
      prog='python -m infra.release',
      description=__doc__,
      epilog=_EPILOG,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument(
      '--write', action='store_true', help='copy the release to dist/')
  options = parser.parse_args(arguments)
  say = functools.partial(print, flush=True)
  try:
    folder = make_release(
        root, dist=root / 'dist' if options.write else None, say=say)
    say(f'torch_xla {pins.VERSION} in {folder}:')
    for path in sorted(folder.iterdir()):
      say(f'  {path.name}')
    if options.write:
      say(f'now tag it: git tag --annotate {tag_of(pins.VERSION)} --message '
          f'"torch_xla {pins.VERSION}" {git.need(root, "rev-parse", "HEAD")}')
    else:
      say('dry run: dist/ is as it was; --write writes it')
  except (BuildError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  return 0


if __name__ == '__main__':
  sys.exit(main())
