"""Does `torch-xla-shardy cache`: lists, verifies or clears what is cached."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
import json
import os
import stat
import sys

from torch_xla_shardy import terminal
from torch_xla_shardy.parser import Parser, write

from .directory import Directory, open_root
from .errors import CacheError
from .store import Store


def run(parser: Parser, options: argparse.Namespace) -> int:
  """Runs the command; returns its exit status."""
  caches = []
  try:
    root = open_root(os.path.abspath(options.root), make=False)
    if root is None:
      parser.error(f'there is no directory {options.root!r}')
    for directory in _directories(root):
      caches.append(_summary(options.action, directory))
  except CacheError as e:
    print(f'error: {e}', file=sys.stderr)
    return 2
  for status in caches:
    if not options.quiet:
      terminal.show(
          '{path}: {entries} entries, {bytes:,} bytes'.format(**status))
    for finding in status['findings']:
      terminal.show(f'error: {finding}')
  if not caches and not options.quiet:
    terminal.show(f'{options.root}: there is no compilation cache in it')
  if options.json:
    write(options.json, json.dumps(caches, indent=1))
  return int(any(status['findings'] for status in caches))


def _directories(above: Directory) -> Iterator[Directory]:
  # A root that was there is open to look through, and not to be listed.
  listed = above.subdirectory('.', make=False)
  for name in sorted(os.listdir(listed.file)):
    status = os.stat(name, dir_fd=listed.file, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
      yield above.subdirectory(name, make=False)


def _summary(action: str, directory: Directory) -> dict[str, object]:
  """The content of a directory after the action, and the findings."""
  store = Store(
      directory.path, directory, limit_bytes=0, readonly=action != 'clear')
  findings = []
  if action == 'verify':
    findings = [f'{directory.path}: {line}' for line in store.damaged()]
  entries, nbytes = store.size()
  return dict(
      path=directory.path, entries=entries, bytes=nbytes, findings=findings)
