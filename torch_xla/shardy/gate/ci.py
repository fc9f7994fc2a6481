"""What a command that judges says to CI systems, and the options for that."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
import dataclasses
from typing import Optional

from . import junit

# GitHub's own: whether it is there, and the file of a job's summary.
_ACTIONS = 'GITHUB_ACTIONS'
_SUMMARY = 'GITHUB_STEP_SUMMARY'


@dataclasses.dataclass(frozen=True)
class Check:
  """One thing that was judged.

  Attributes:
    findings: what is wrong, a sentence each; empty: it is fine.
  """
  name: str
  findings: tuple[str, ...]


def add_options(parser: argparse.ArgumentParser) -> None:
  """What a report is held to, and the files for it."""
  parser.add_argument(
      '--golden',
      metavar='FILE',
      help='fail if anything differs from this file, which --update-golden '
      'wrote')
  parser.add_argument(
      '--golden-sections',
      metavar='NAMES',
      help='what of it counts, of placements,programs,collectives,memory,counts '
      '(default: all but counts)')
  parser.add_argument(
      '--update-golden',
      action='store_true',
      help='write that file instead, and say what changed')
  parser.add_argument(
      '--require',
      action='append',
      default=[],
      metavar='REQUIREMENT',
      help="fail unless it holds: 'all-gather bytes<=1GiB', 'programs<=3'; "
      '--require help lists the quantities')
  parser.add_argument(
      '--junit', metavar='FILE', help="write the findings as JUnit's XML")


def misused(options: Mapping[str, object]) -> Optional[str]:
  """What of `add_options` makes no sense together; None: all does."""
  for key in ('golden_sections', 'update_golden'):
    if options[key] and not options['golden']:
      return f'--{key.replace("_", "-")} is of --golden FILE, and there is none'
  return None


def tell(tool: str, checks: Sequence[Check], junit_file: Optional[str],
         variables: Mapping[str, str]) -> None:
  """Tells CI what was found: JUnit's XML, and where it is GitHub's, annotations
  of the run and the job's summary.

  Args:
    variables: of the environment.

  Raises:
    OSError: a file cannot be written.
  """
  if junit_file:
    tests = [
        junit.Test(
            tool,
            c.name,
            'failure' if c.findings else '',
            ''.join(c.findings[:1]),
            text='\n'.join(c.findings)) for c in checks
    ]
    with open(
        junit_file, 'w', encoding='utf-8', errors='backslashreplace') as f:
      f.write(junit.xml(tool, tests))
  if variables.get(_ACTIONS) == 'true':
    for check in checks:
      for finding in check.findings:
        title = _escaped(f'{tool}: {check.name}')
        title = title.replace(':', '%3A').replace(',', '%2C')
        print(f'::error title={title}::{_escaped(finding)}', flush=True)
  if variables.get(_SUMMARY):
    with open(
        variables[_SUMMARY], 'a', encoding='utf-8',
        errors='backslashreplace') as f:
      f.write(markdown(tool, checks))


def markdown(tool: str, checks: Sequence[Check]) -> str:
  """A heading, and a line for each finding."""
  found = [(c.name, text) for c in checks for text in c.findings]
  return '\n'.join([
      f'### {tool}: {len(found) or "no"} finding(s)', '',
      *(f'- **{name}**: `{" ".join(text.replace("`", chr(39)).split())}`'
        for name, text in found), ''
  ]) + '\n'


def _escaped(text: str) -> str:
  return text.replace('%', '%25').replace('\r', '%0D').replace('\n', '%0A')
