"""Rewrites the official wheel's metadata into another's. Pure functions."""

import base64
import csv
import hashlib
import io
import re
from typing import Iterable, Mapping

from infra.errors import BuildError
from infra.wheel import pins
from infra.wheel.distribution import Distribution

LICENSE_NAME = 'LICENSE.shardy'

# A field of a METADATA header: its name, and its value with any continuation
# lines, as they stand.
Field = tuple[str, str]


def rewrite_metadata(official: str, wheel: Distribution, readme: str) -> str:
  """A wheel's METADATA: upstream's, with its name, version, needs and README.

  Raises:
    BuildError: the official METADATA lacks a field that has to change.
  """
  fields = _parse(official)
  fields = _replace(fields, 'Name', wheel.name)
  fields = _replace(fields, 'Version', wheel.version)
  fields = _replace(fields, 'Summary', wheel.summary)
  fields = _add_after(fields, 'License-File', [('License-File', LICENSE_NAME)])
  needs = [('Requires-Dist', need) for need in wheel.requires]
  extras = []
  for extra, requirements in pins.EXTRAS.items():
    extras.append(('Provides-Extra', extra))
    extras += [('Requires-Dist', f'{requirement}; extra == "{extra}"')
               for requirement in requirements]
  fields = _add_after(fields, 'Requires-Dist', needs + extras)
  header = ''.join(f'{name}: {value}\n' for name, value in fields)
  return f'{header}\n{readme}'


def requirements(text: str) -> list[str]:
  """The Requires-Dist fields of a METADATA file."""
  return [value for name, value in _parse(text) if name == 'Requires-Dist']


def rewrite_version(official: str, version: str) -> str:
  """Returns torch_xla/version.py with another version.

  Raises:
    BuildError: it does not hold the version that it should.
  """
  old = f"__version__ = '{pins.OFFICIAL_VERSION}'\n"
  if official.count(old) != 1:
    raise BuildError(f'torch_xla/version.py does not say {old.strip()} once')
  return official.replace(old, f"__version__ = '{version}'\n")


def rewrite_wheel(official: str) -> str:
  """Returns WHEEL with our generator; the tags stay.

  Raises:
    BuildError: there is no Generator line.
  """
  text, count = re.subn(r'(?m)^Generator: .*$', f'Generator: {pins.GENERATOR}',
                        official)
  if count != 1:
    raise BuildError('the official WHEEL file has no Generator line')
  return text


def add_packages(official: str, packages: Iterable[str]) -> str:
  """Returns top_level.txt with further packages."""
  return official + ''.join(f'{package}\n' for package in packages)


def add_entry_points(text: str, group: str, entries: Mapping[str, str]) -> str:
  """Returns entry_points.txt with further ones of a group.

  Raises:
    BuildError: it has no such group.
  """
  head = f'[{group}]\n'
  if text.count(head) != 1:
    raise BuildError('the official entry_points.txt does not have one group '
                     f'{group}')
  lines = ''.join(f'{name} = {value}\n' for name, value in entries.items())
  return text.replace(head, head + lines)


def hash_field(data: bytes) -> str:
  """A file's hash as RECORD writes it."""
  digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
  return 'sha256=' + digest.rstrip(b'=').decode()


def read_record(text: str) -> dict[str, str]:
  """The hash of each file that a RECORD lists."""
  return {row[0]: row[1] for row in csv.reader(io.StringIO(text)) if row}


def write_record(rows: Iterable[tuple[str, str, int]], record: str) -> str:
  """A RECORD of (name, hash, size) rows and of itself, the file `record`."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator='\n')
  writer.writerows(sorted(rows))
  writer.writerow((record, '', ''))
  return text.getvalue()


def _parse(text: str) -> list[Field]:
  """The header fields of a METADATA file, in order."""
  header = text.split('\n\n', 1)[0]
  # A continuation line begins with a blank; a field does not.
  entries = re.split(r'\n(?![ \t])', header)
  return [tuple(entry.split(': ', 1)) for entry in entries]


def _replace(fields: list[Field], name: str, value: str) -> list[Field]:
  """Returns `fields` with the one field `name` set."""
  if sum(field[0] == name for field in fields) != 1:
    raise BuildError(f'the official METADATA does not have one {name} field')
  return [(name, value) if field[0] == name else field for field in fields]


def _add_after(fields: list[Field], name: str,
               more: list[Field]) -> list[Field]:
  """Returns `fields` with `more` behind the last field called `name`."""
  places = [i for i, field in enumerate(fields) if field[0] == name]
  if not places:
    raise BuildError(f'the official METADATA has no {name} field')
  place = places[-1] + 1
  return fields[:place] + more + fields[place:]
