"""What differs is found, told with its place, and allowed where it may be."""

import dataclasses
import math

import pytest
import torch

from torch_xla_conformance.case import Failure
from torch_xla_conformance.comparison import (APPROXIMATED, compare,
                                              compare_shards, COMPOUND, EXACT,
                                              PROPORTION, ROUNDED, SAME_BITS,
                                              Shard)

_NUMBERS = torch.tensor([[1.0, -2.0, 100.0], [0.0, 0.001, 3.0]])


def with_element(tensor: torch.Tensor, place: tuple[int, ...],
                 value: float) -> torch.Tensor:
  changed = tensor.clone()
  changed[place] = value
  return changed


def text_of(expected: torch.Tensor, actual: torch.Tensor, tolerance) -> str:
  with pytest.raises(Failure) as raised:
    compare(expected, actual, tolerance)
  return str(raised.value)


_INFINITE = torch.tensor([1.0, math.inf])
_WITH_NAN = with_element(_NUMBERS, (0, 1), math.nan)
_ONE_ZERO = torch.tensor([1.0, 0.0])


@pytest.mark.parametrize('tensor', [
    *(torch.tensor([0, 1, 3, 200]).to(dtype)
      for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.int64,
                    torch.int32, torch.uint8, torch.bool)),
    _INFINITE,
    _WITH_NAN,
    torch.ones(0, 3),
])
def test_equal_tensors_are_equal(tensor):
  for tolerance in (SAME_BITS, EXACT, APPROXIMATED):
    assert compare(tensor, tensor.clone(), tolerance) == 0


@pytest.mark.parametrize(
    'expected, actual, text',
    [
        (_NUMBERS, _NUMBERS.double(), 'dtype float64, expected float32'),
        (_NUMBERS, _NUMBERS.T, 'shape [3, 2], expected [2, 3]'),
        (torch.ones(()), torch.ones(1), 'shape [1], expected []'),
        (_NUMBERS, with_element(_NUMBERS, (1, 2), 3.5),
         '3.5 at [1, 2], expected 3.0, differs by 0.5; allowed none; 1 of 6 '
         'elements wrong'),
        # The worst of wrong elements.
        (_NUMBERS, with_element(_NUMBERS + 0.5, (0, 1), 7.0), '7.0 at [0, 1]'),
        *((torch.tensor([7, 9]).to(dtype), torch.tensor(
            [7, 8]).to(dtype), '8 at [1], expected 9; allowed none')
          for dtype in (torch.int64, torch.int32, torch.uint8)),
        (torch.tensor([2**60, 5]), torch.tensor(
            [2**60 + 1, 5]), f'{2**60 + 1} at [0], expected {2**60}'),
        (torch.tensor([True]), torch.tensor([False
                                            ]), 'False at [0], expected True'),
        (_WITH_NAN, _NUMBERS, '-2.0 at [0, 1], expected nan'),
        (_NUMBERS, _WITH_NAN, 'nan at [0, 1], expected -2.0'),
        *((_INFINITE, torch.tensor([1.0, wrong
                                   ]), f'{wrong} at [1], expected inf')
          for wrong in (-math.inf, 3e38, math.nan)),
        (_NUMBERS, with_element(_NUMBERS, (0, 0), math.inf),
         'inf at [0, 0], expected 1.0, differs by inf; infinities must be the same'
        ),
    ])
def test_what_differs_is_told_with_its_place(expected, actual, text):
  told = text_of(expected, actual, EXACT)
  # As float32 has it.
  assert told.startswith(text.replace('3e+38', '3.0000000054977558e+38'))
  if not expected.dtype.is_floating_point or 'nan' in text or 'inf' in text:
    assert text_of(expected, actual, APPROXIMATED)[:9] == told[:9]


def test_signs_of_zeros_count_where_bits_do():
  actual = -_ONE_ZERO.neg()
  actual[1] = -0.0
  assert compare(_ONE_ZERO, actual, EXACT) == 0
  assert compare(_ONE_ZERO, actual, APPROXIMATED) == 0
  text = text_of(_ONE_ZERO, actual, SAME_BITS)
  assert text.startswith('-0.0 at [1], expected 0.0')
  assert '0.0 and -0.0 are not the same here' in text


@pytest.mark.parametrize(
    'dtype', [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize('tolerance', [ROUNDED, APPROXIMATED])
def test_no_more_is_allowed_than_is_said(tolerance, dtype):
  """What the dtype cannot tell apart is rounded away from the edge."""
  expected = torch.full((3,), 4.0, dtype=dtype)
  allowed = 4 * tolerance.ratio(dtype)
  unit = torch.finfo(dtype).eps * 4
  steps = int(allowed / unit)
  within = with_element(expected, (1,), 4 + steps * unit)
  assert compare(expected, within, tolerance) == pytest.approx(steps * unit / 4)
  text = text_of(expected, with_element(expected, (1,), 4 + (steps + 1) * unit),
                 tolerance)
  assert f'; allowed {tolerance.ratio(dtype):.1g} relative' in text


def test_a_floor_allows_as_much_of_small_numbers():
  expected = torch.tensor([1e-4])
  tolerance = dataclasses.replace(ROUNDED, floor=0.5)
  assert compare(expected, expected + 4e-7, tolerance) > 0
  assert 'differs by 6e-07; allowed 1e-06 relative, of 0.5 at least' in text_of(
      expected, expected + 6e-7, tolerance)
  assert 'differs by 4e-07; allowed 1e-06 relative;' in text_of(
      expected, expected + 4e-7, ROUNDED)


@pytest.mark.parametrize('tolerance',
                         [ROUNDED, APPROXIMATED, COMPOUND, PROPORTION])
def test_wider_dtypes_are_allowed_less(tolerance):
  ratios = [
      tolerance.ratio(dtype)
      for dtype in (torch.int32, torch.float64, torch.float32, torch.float16,
                    torch.bfloat16)
  ]
  assert ratios[0] == 0 and ratios == sorted(set(ratios))


def test_numbers_too_small_to_be_normal_may_be_zero():
  expected = torch.tensor([1e-40, 1.0])
  flushed = torch.tensor([0.0, 1.0])
  assert compare(expected, flushed, ROUNDED) == 0
  assert compare(flushed, expected, EXACT) == 0
  assert 'at [0]' in text_of(expected, flushed, SAME_BITS)
  assert 'at [0]' in text_of(torch.tensor([2e-38, 1.0]), flushed, ROUNDED)


def test_the_largest_difference_is_given():
  actual = torch.tensor([1.0 + 2e-6, 2.0 + 8e-6])
  assert compare(torch.tensor([1.0, 2.0]), actual,
                 APPROXIMATED) == pytest.approx(
                     4e-6, rel=0.1)


def halves(tensor: torch.Tensor) -> list[Shard]:
  """Columns 0 and 1 on one device, the last one on two."""
  left, right = (slice(0, 2), slice(0, 2)), (slice(0, 2), slice(2, 3))
  return [
      Shard('A:0', left, tensor[left]),
      Shard('A:1', right, tensor[right]),
      Shard('A:2', right, tensor[right])
  ]


def test_shards_are_compared_with_their_parts():
  assert compare_shards(_NUMBERS, halves(_NUMBERS), SAME_BITS) == 0
  assert compare_shards(_NUMBERS, [Shard('A:0', ..., _NUMBERS)], EXACT) == 0
  spoiled = halves(_NUMBERS * (1 + 4e-7))
  assert 1e-7 < compare_shards(_NUMBERS, spoiled, ROUNDED) < 1e-6


def test_a_wrong_copy_is_told_with_its_device_and_place():
  """The last of the devices alone is wrong."""
  shards = halves(_NUMBERS)
  shards[2] = Shard('A:2', shards[2].index, shards[2].data + 1)
  with pytest.raises(Failure, match=r'^device A:2: 101.0 at \[0, 2\]'):
    compare_shards(_NUMBERS, shards, EXACT)


def test_a_shard_of_another_dtype_is_told():
  with pytest.raises(Failure, match='device A:0: dtype float64'):
    compare_shards(_NUMBERS, halves(_NUMBERS.double()), EXACT)


def test_elements_that_no_device_holds_are_told():
  with pytest.raises(Failure, match='2 of 6 elements are held by no device'):
    compare_shards(_NUMBERS, halves(_NUMBERS)[:1], EXACT)
