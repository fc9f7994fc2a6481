"""Judges requirements, PEP 508: pip refuses a whole wheel that has a wrong one.

`packaging` would judge them, too, and is none of the builder's dependencies.
"""

from __future__ import annotations

import re

_RELEASE = r'v?(?:\d+!)?\d+(?:\.\d+)*'
_SUFFIX = (r'(?:[-_.]?(?:alpha|a|beta|b|preview|pre|c|rc)[-_.]?\d*)?'
           r'(?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?(?:[-_.]?dev[-_.]?\d*)?')
_LOCAL = r'(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?'
_CLAUSE = '(?:' + '|'.join((
    r'===\s*[\w.+!-]+',
    rf'(?:==|!=)\s*{_RELEASE}(?:\.\*|{_SUFFIX}{_LOCAL})',
    rf'~=\s*v?(?:\d+!)?\d+(?:\.\d+)+{_SUFFIX}',
    rf'(?:<=|>=|<|>)\s*{_RELEASE}{_SUFFIX}',
)) + ')'
_CLAUSES = rf'{_CLAUSE}(?:\s*,\s*{_CLAUSE})*'
_NAME = r'[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?'
_REQUIREMENT = re.compile(
    rf'(?P<name>{_NAME})(?:\s*\[\s*{_NAME}(?:\s*,\s*{_NAME})*\s*\])?'
    rf'(?:(?:\s*{_CLAUSES}|\s*\(\s*{_CLAUSES}\s*\))?(?:\s*;(?P<marker>.*))?'
    r'|\s*@\s*[a-z][a-z0-9+.-]*://\S+(?:\s+;(?P<marker_of_url>.*))?)',
    re.ASCII | re.IGNORECASE)

_VARIABLE = (r'\b(?:python_version|python_full_version|os_name|sys_platform|'
             r'platform_(?:release|system|version|machine|'
             r'python_implementation)|implementation_(?:name|version)|extra)\b')
_TEXT = r"""(?:'[^']*'|"[^"]*")"""
_OPERATOR = r'\s*(?:<=|>=|==|!=|<|>|\bin\b|\bnot\s+in\b)\s*'
# One of the two sides has to be a variable: pip fails at others as it installs.
_COMPARISON = re.compile(
    rf'{_VARIABLE}{_OPERATOR}{_TEXT}|{_TEXT}{_OPERATOR}{_VARIABLE}|'
    r'\bpython_(?:full_)?version\s*~=\s*(?P<q>[\'"])\d+(?:\.\d+)+(?P=q)',
    re.ASCII)
# What stands for a part of a marker that is right; no printable text has it.
_RIGHT = '\0'
_LARGER = re.compile(r'\0\s*(?:and|or)\s*\0|\(\s*\0\s*\)', re.ASCII)


def name_of(requirement: str) -> str | None:
  """The normal form of the name of what is required.

  None if pip would not take the requirement.
  """
  match = _REQUIREMENT.fullmatch(requirement)
  if not match or not (requirement.isascii() and requirement.isprintable()):
    return None
  markers = (match['marker'], match['marker_of_url'])
  if not all(marker is None or _is_marker(marker) for marker in markers):
    return None
  return normal_name(match['name'])


def names_extra(requirement: str) -> bool:
  """Whether a requirement, which pip takes, holds for an extra only."""
  marker = requirement.partition(';')[2]
  return bool(re.search(r'\bextra\b', re.sub(_TEXT, '', marker)))


def normal_name(name: str) -> str:
  """The name of a distribution in its normal form, by which pip compares it."""
  return re.sub(r'[-_.]+', '-', name).lower()


def _is_marker(text: str) -> bool:
  """Whether a text is a marker, as in "python_version < '3.12'"."""
  text = _COMPARISON.sub(_RIGHT, text)
  while (larger := _LARGER.sub(_RIGHT, text)) != text:
    text = larger
  return text.strip() == _RIGHT
