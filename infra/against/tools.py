"""pytest and what else the tests need, for an interpreter that lacks them.

They are never installed into the user's environment, but into a folder under
build/against/ that is put on the path of the tests' processes.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys

from infra.against.target import Target, TargetError
from infra.errors import Say

_NEEDED = ('hypothesis', 'pytest', 'rich')
_REQUIREMENTS = 'infra/requirements-test.txt'
_INSTALLED = '''\
import importlib.metadata as metadata, json, sys
versions = {}
for name in sys.argv[1:]:
  try:
    versions[name] = metadata.version(name)
  except metadata.PackageNotFoundError:
    pass
print(json.dumps([sys.implementation.cache_tag, versions]))
'''


def provide(target: Target, root: Path, say: Say) -> list[Path]:
  """The folders that the tests' processes find pytest in; none if it has it.

  Raises:
    TargetError: pip cannot install it.
  """
  pinned = _pinned(root)
  folder = root / 'build' / 'against'
  folder.mkdir(parents=True, exist_ok=True)
  done = target.run(['-c', _INSTALLED, *pinned], folder)
  if done.returncode:
    raise TargetError(f'{target.python} does not work:\n{_tail(done.stderr)}')
  tag, versions = json.loads(done.stdout)
  if versions == pinned:
    return []
  lines = [f'{name}=={version}' for name, version in pinned.items()]
  digest = hashlib.sha256(' '.join(lines).encode()).hexdigest()[:8]
  tools = folder / f'tools-{tag}-{digest}'
  if not tools.is_dir():
    say(f'installing {", ".join(lines)} into {tools}')
    _install(target, lines, tools)
  return [tools]


def _pinned(root: Path) -> dict[str, str]:
  text = (root / _REQUIREMENTS).read_text(encoding='utf-8')
  pinned = dict(
      line.split('==')
      for line in text.splitlines()
      if line and not line.startswith('#'))
  return {name: pinned[name] for name in _NEEDED}


def _install(target: Target, lines: list[str], tools: Path) -> None:
  """Has this Python's pip install for the target's, which may have none."""
  part = tools.with_name(f'{tools.name}.{os.getpid()}.part')
  try:
    process = subprocess.run([
        sys.executable, '-m', 'pip', '--disable-pip-version-check', '--quiet',
        '--python',
        str(target.python), 'install', '--only-binary', ':all:', '--target',
        str(part), *lines
    ],
                             env=Target(target.python).environment(),
                             capture_output=True,
                             text=True,
                             check=False)
    if process.returncode:
      raise TargetError(
          f'pip cannot install {", ".join(lines)} for {target.python}:\n'
          f'{_tail(process.stderr)}\nCheck the network and the package index '
          'of pip, then run this again.')
    part.rename(tools)
  finally:
    shutil.rmtree(part, ignore_errors=True)


def _tail(text: str) -> str:
  return '\n'.join(text.strip().splitlines()[-6:])
