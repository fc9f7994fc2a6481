"""Bytes and numbers as people write them."""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st
import properties
import pytest
from torch_xla.shardy.gate import sizes


@pytest.mark.parametrize('text, nbytes', [
    ('512', 512),
    ('1 byte', 1),
    ('512B', 512),
    ('1KiB', 1024),
    ('16 MB', 16_000_000),
    ('15.75G', 15.75 * (1 << 30)),
    ('.5 TiB', 1 << 39),
    ('1,024 KiB', 1 << 20),
    (' 2 MiB ', 2 << 20),
])
def test_bytes_are_read(text: str, nbytes: float) -> None:
  assert sizes.parse(text) == nbytes


@pytest.mark.parametrize(
    'text',
    ['', 'GiB', '1GiBs', '-1', '1 ZiB', '1e9', '2%', '1.2.3', '1 G B', 'nan'])
def test_what_is_no_number_of_bytes(text: str) -> None:
  with pytest.raises(sizes.SizeError, match='write 1GiB, 16 MB') as e:
    sizes.parse(text)
  assert repr(text) in str(e.value)


@pytest.mark.parametrize('text, number', [
    ('3', 3),
    ('1,000', 1000),
    ('2.5T', 2_500_000_000_000),
    ('1e12', 10**12),
    ('7 k', 7000),
])
def test_numbers_are_read(text: str, number: int) -> None:
  assert sizes.parse_number(text) == number


@pytest.mark.parametrize('text', ['', '1GiB', '3 bytes', '-3', '1e9999', 'inf'])
def test_what_is_no_number(text: str) -> None:
  with pytest.raises(sizes.SizeError, match='is no number: write'):
    sizes.parse_number(text)


@pytest.mark.parametrize('nbytes, text', [
    (0, '0 bytes'),
    (1, '1 byte'),
    (1024, '1.00 KiB'),
    (16_911_433_728, '15.75 GiB'),
    ((1 << 20) - 1, '1.00 MiB'),
    (1 << 80, '1.21e+24 bytes'),
])
def test_bytes_are_written(nbytes: int, text: str) -> None:
  assert sizes.text(nbytes) == text


@pytest.mark.parametrize('number, text', [
    (0, '0'),
    (9999, '9,999'),
    (2.5, '2.50'),
    (1_500_000, '1.50 M'),
    (999_999, '1.00 M'),
    (float('inf'), 'inf'),
])
def test_numbers_are_written(number: float, text: str) -> None:
  assert sizes.number_text(number) == text


@properties.examples(200)
@hypothesis.given(st.integers(0, 1 << 66))
def test_what_is_written_is_read_to_two_digits(nbytes: int) -> None:
  # Half of the last digit that is written, and of a float's.
  assert abs(sizes.parse(sizes.text(nbytes)) - nbytes) <= nbytes * 0.0051
