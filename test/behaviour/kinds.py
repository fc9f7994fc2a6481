"""What a failure says of a torch_xla: that it lacks, differs, or is wrong.

  wrong    a user gets wrong numbers or loses data, or a call that should work
           ends with an error or with the process
  differs  the numbers are right, and something else is not as it should be: a
           placement, a text, how often something is traced or compiled
  lacks    what the test uses is not there

Which one it is, the failure says: `assert_right` and `assert_told_apart` fail
as wrong, any other assertion as differs, an exception as wrong. A mark
`means(KIND)` says it of all failures of a test.
"""

from __future__ import annotations

from pathlib import Path
import re
from typing import Any

import pytest

LACKS, DIFFERS, WRONG = KINDS = ('lacks', 'differs', 'wrong')
_HERE = Path(__file__).resolve().parent
# A call of something that is there, with what it does not take.
_UNTAKEN = re.compile(r'(unexpected keyword|positional|at most|incompatible '
                      r'function|Unknown keyword) ?.*argument')


class WrongError(AssertionError):
  """Raised where numbers are wrong, or where it is only luck if they are not.
  """


def assert_right(got,
                 right,
                 tolerance: float | None = None,
                 about: Any = '') -> None:
  """Checks numbers, wherever the tensors are.

  Args:
    right: the right ones.
    tolerance: how far off each may be; by default what torch takes for close
      in that type.
    about: which case it is.

  Raises:
    WrongError: they are not right.
  """
  import torch
  tolerances = {} if tolerance is None else {'atol': tolerance, 'rtol': 0}
  try:
    torch.testing.assert_close(got.detach().cpu(),
                               right.detach().cpu(), **tolerances)
  except AssertionError as error:
    raise WrongError(f'{about} {error}'.lstrip()) from None


def assert_told_apart(one: Any, other: Any, about: Any = '') -> None:
  """Checks that hashes of programs that compute other numbers differ.

  Raises:
    WrongError: they do not, so that one is run for the other.
  """
  if one == other:
    raise WrongError(f'{about} the hash is that of another graph: '
                     f'{one!r}'.lstrip())


def of(error: BaseException, file: Path, marked: str | None = None) -> str:
  """The kind of the failure that an exception is.

  Args:
    file: where it was raised.
    marked: the kind that the test says.
  """
  if isinstance(error, WrongError):
    return WRONG
  if _is_of_absence(error, file.resolve()):
    return LACKS
  if marked:
    return marked
  if isinstance(error, (AssertionError, pytest.fail.Exception)):
    return DIFFERS
  return WRONG


def _is_of_absence(error: BaseException, file: Path) -> bool:
  if isinstance(error, (ImportError, AttributeError)):
    # Within it that is a fault of its own.
    return 'torch_xla' not in file.parts
  return (isinstance(error, (TypeError, RuntimeError)) and
          file.is_relative_to(_HERE) and bool(_UNTAKEN.search(str(error))))
