"""Bytes and large numbers as people write them, and back.

A bare letter is a power of 1024, as in the compiler's own messages: it calls
16 GiB '16.00G'. The forms KiB and KB are those of IEC 80000-13 and of the SI.
"""

from __future__ import annotations

from fractions import Fraction
import math
import re

_LETTERS = 'KMGTPE'
_SIZE = re.compile(
    r'(?P<number>\d[\d,_]*(?:\.\d+)?|\.\d+)\s*'
    r'(?:(?P<letter>[KMGTPE])(?P<form>iB|B)?|(?P<bytes>B|bytes?))?',
    re.IGNORECASE)
_NUMBER = re.compile(
    r'(?P<number>\d[\d,_]*(?:\.\d+)?(?:e\+?\d{1,3})?|\.\d+)\s*'
    r'(?P<letter>[KMGTPE])?', re.IGNORECASE)


class SizeError(ValueError):
  """A text that is no number of bytes, or no number."""


def parse(text: str) -> int:
  """The bytes of '1GiB' (1024^3), '16 MB' (16 * 1000^2), '3.2G', '512'."""
  match = _SIZE.fullmatch(text.strip())
  if not match:
    raise SizeError(f'{text!r} is no number of bytes: write 1GiB, 16 MB, 3.2G '
                    '(of 1024, as GiB) or 512')
  thousands = match['form'] is not None and match['form'].upper() == 'B'
  return _scaled(match, 1000 if thousands else 1024)


def parse_number(text: str) -> int:
  """The number of '3', '1,000', '2.5T' (of 1000) or '1e12'."""
  match = _NUMBER.fullmatch(text.strip())
  if not match:
    raise SizeError(f'{text!r} is no number: write 3, 1,000, 2.5T (of 1000) '
                    'or 1e12')
  return _scaled(match, 1000)


def _scaled(match: re.Match[str], base: int) -> int:
  number = Fraction(match['number'].replace(',', '').replace('_', ''))
  letter = match['letter']
  power = _LETTERS.index(letter.upper()) + 1 if letter else 0
  return round(number * base**power)


def text(nbytes: int) -> str:
  """A size in short, as '1.25 GiB'; below 1024, '512 bytes'."""
  if abs(nbytes) < 1024:
    return f'{nbytes} byte{"" if nbytes == 1 else "s"}'
  if abs(nbytes) >= 1024**(len(_LETTERS) + 1):
    return f'{nbytes:.3g} bytes'
  return f'{_short(nbytes, 1024)}iB'


def number_text(number: float) -> str:
  """A number in short, as '1.97 T'; whole ones below 10,000 are exact."""
  if not math.isfinite(number):
    return str(number)
  if abs(number) < 10_000:
    return f'{number:,.0f}' if number == int(number) else f'{number:,.2f}'
  if abs(number) >= 1000**(len(_LETTERS) + 1):
    return f'{number:.3g}'
  return _short(number, 1000)


def _short(number: float, base: int) -> str:
  power = 0
  # What rounds to 1,024.00 of one unit is 1.00 of the next.
  while abs(number) >= base - 0.005 and power < len(_LETTERS):
    number /= base
    power += 1
  return f'{number:,.2f} {_LETTERS[power - 1]}'
