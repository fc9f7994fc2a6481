"""Writes the metadata of wheels."""

import base64
from collections.abc import Callable, Iterable, Mapping
import csv
import hashlib
import io
from pathlib import Path
import re

from infra.errors import BuildError
from infra.wheel import pins
from infra.wheel.profile import Profile

OFFICIAL_INFO = f'{pins.PACKAGE}-{pins.OFFICIAL_VERSION}.dist-info'
VERSION_FILE = f'{pins.PACKAGE}/version.py'
_LICENSE = 'LICENSE.shardy'


def rewrite(read: Callable[[str], str], root: Path,
            profile: Profile) -> dict[str, str]:
  """The metadata of a wheel that differ from upstream's, by their place in it.

  RECORD and the bill of materials are not among them.

  Args:
    read: gives a file of the official wheel.
    root: the checkout, with LICENSE and README.
    profile: the wheel's.

  Raises:
    BuildError: an official file lacks what has to change.
  """
  plugin, fields = profile.plugin, f'{OFFICIAL_INFO}/METADATA'
  packages = [pins.COMMAND_PACKAGE, *([plugin.package_name] if plugin else [])]
  needs = requirement_fields((*pins.REQUIRES, *profile.requires), pins.EXTRAS)
  # In which file what takes the place of a match, behind its group.
  edits = (
      (VERSION_FILE, f"^(__version__ = )'{pins.OFFICIAL_VERSION}'$",
       repr(profile.version)),
      (f'{OFFICIAL_INFO}/WHEEL', r'^(Generator: ).*$', pins.GENERATOR),
      (f'{OFFICIAL_INFO}/top_level.txt', r'(\n)\Z',
       ''.join(f'{package}\n' for package in packages)),
      (f'{OFFICIAL_INFO}/entry_points.txt', rf'^(\[{pins.PLUGIN_GROUP}\]\n)',
       entry_points(plugin.entry_points if plugin else {})),
      (f'{OFFICIAL_INFO}/entry_points.txt', rf'^(\[{pins.SCRIPT_GROUP}\]\n)',
       entry_points(pins.SCRIPTS)),
      # The text behind the fields goes; of several fields the last counts.
      (fields, r'\A((?s:.*?)\n\n)(?s:.*)\Z', ''),
      (fields, r'^(Name: ).*$', profile.name),
      (fields, r'^(Version: ).*$', profile.version),
      (fields, r'^(Summary: ).*$', profile.summary),
      (fields, r'\A((?s:.*)^License-File: .*\n)',
       f'License-File: {_LICENSE}\n'),
      (fields, r'\A((?s:.*)^Requires-Dist: .*\n)', needs),
  )
  texts: dict[str, str] = {}
  for name, pattern, new in edits:
    texts[name], count = re.subn(
        pattern,
        lambda m: m[1] + new,
        texts.get(name) or read(name),
        flags=re.MULTILINE)
    if count != 1:
      raise BuildError(f'the official {name} has not one {pattern}')
  texts[fields] += (root / 'README.md').read_text(encoding='utf-8')
  texts[f'{OFFICIAL_INFO}/licenses/{_LICENSE}'] = (root / 'LICENSE').read_text(
      encoding='utf-8')
  return {
      name.replace(OFFICIAL_INFO, profile.info): text
      for name, text in texts.items()
  }


def requirement_fields(requires: Iterable[str],
                       extras: Mapping[str, Iterable[str]]) -> str:
  """The lines of METADATA that say what a wheel depends on."""
  lines = [f'Requires-Dist: {need}\n' for need in requires]
  for extra, needs in extras.items():
    lines.append(f'Provides-Extra: {extra}\n')
    lines += [f'Requires-Dist: {n}; extra == "{extra}"\n' for n in needs]
  return ''.join(lines)


def entry_points(entries: Mapping[str, str]) -> str:
  """The lines of a group of entry points."""
  return ''.join(f'{name} = {value}\n' for name, value in entries.items())


def requirements(text: str) -> list[str]:
  """The Requires-Dist fields of a METADATA file."""
  fields = text.partition('\n\n')[0]
  return re.findall('^Requires-Dist: (.*)$', fields, re.MULTILINE)


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
