"""The results of a judging command for CI systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Optional

from torch_xla_shardy.parser import write

from . import junit


@dataclasses.dataclass(frozen=True)
class Check:
  """One thing that was judged.

  Attributes:
    findings: what is wrong, a sentence each; empty: it is fine.
  """
  name: str
  findings: tuple[str, ...]


def tell(tool: str, checks: Sequence[Check], junit_file: Optional[str],
         variables: Mapping[str, str]) -> None:
  """Tells CI what was found: JUnit's XML, and GitHub's annotations and summary.

  Args:
    variables: of the environment; GitHub's say whether it is there.

  Raises:
    OSError: the summary cannot be written.
    OutputError: JUnit's file cannot.
  """
  findings = [(c.name, text) for c in checks for text in c.findings]
  if junit_file:
    tests = [
        junit.Test(
            tool,
            c.name,
            'failure' if c.findings else '',
            ''.join(c.findings[:1]),
            text='\n'.join(c.findings)) for c in checks
    ]
    write(junit_file, junit.xml(tool, tests))
  if variables.get('GITHUB_ACTIONS') == 'true':
    for name, text in findings:
      title = _escaped(f'{tool}: {name}')
      title = title.replace(':', '%3A').replace(',', '%2C')
      print(f'::error title={title}::{_escaped(text)}', flush=True)
  if variables.get('GITHUB_STEP_SUMMARY'):
    lines = [f'### {tool}: {len(findings) or "no"} finding(s)\n']
    for name, text in findings:
      code = ' '.join(text.split()).replace('`', "'")
      lines.append(f'- **{name}**: `{code}`')
    with open(
        variables['GITHUB_STEP_SUMMARY'],
        'a',
        encoding='utf-8',
        errors='backslashreplace') as file:
      file.write('\n'.join(lines) + '\n\n')


def _escaped(text: str) -> str:
  return text.replace('%', '%25').replace('\r', '%0D').replace('\n', '%0A')
