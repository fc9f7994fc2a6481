"""All of torch's OpInfo on one device, against a CPU, in some dtypes.

A difference is one of values, dtypes or shapes, forward or of a gradient, an
error that a CPU does not raise, or the end of the process.
"""

import itertools
import json
import os
import signal
import warnings

from known import DIFFER
import processes
import pytest
import torch
from torch.utils import _pytree as pytree

# Of an operator; how many processes share them, each of which has a limit.
_SAMPLES, _SECONDS, _PARTS = 6, 100, 16


def _leaves(tree) -> list[torch.Tensor]:
  return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def _values(op, sample, device: str) -> list:
  """The results and gradients of an operator."""
  given, args, kwargs = pytree.tree_map_only(
      torch.Tensor,
      lambda t: t.detach().clone().to(device).requires_grad_(t.requires_grad),
      (sample.input, sample.args, sample.kwargs))
  if 'device' in kwargs:
    kwargs['device'] = device
  result = op(given, *args, **kwargs)
  results = _leaves(sample.output_process_fn_grad(result))
  inputs = [t for t in _leaves((given, args, kwargs)) if t.requires_grad]
  with_grad = [t for t in results if t.requires_grad]
  grads = ()
  if inputs and with_grad:
    loss = sum(
        (t *
         torch.arange(1.,
                      t.numel() + 1).reshape(t.shape).to(device)).abs().sum()
        for t in with_grad)
    grads = torch.autograd.grad(loss, inputs, allow_unused=True)
  return [None if t is None else t.detach().cpu() for t in (*results, *grads)]


def _is_same(a, b) -> bool:
  if a is None or b is None:
    return all(t is None or not t.any() for t in (a, b))
  return (a.dtype, a.shape) == (b.dtype, b.shape) and torch.allclose(
      a, b, rtol=2e-3, atol=2e-3, equal_nan=True)


def _difference(op, dtype: torch.dtype) -> str:
  """The first of an operator; empty if there is none."""
  has_gradient = op.supports_autograd and dtype in op.supported_backward_dtypes(
      'cpu')
  for sample in itertools.islice(
      op.sample_inputs('cpu', dtype, requires_grad=has_gradient), _SAMPLES):
    try:
      right = _values(op, sample, 'cpu')
    except Exception:  # pylint: disable=broad-except
      continue  # Not for a CPU, or with no gradient of that kind.
    try:
      values = _values(op, sample, 'xla')
    except Exception as e:  # pylint: disable=broad-except
      return str(e).split('\n', maxsplit=1)[0]
    for a, b in itertools.zip_longest(right, values):
      if not _is_same(a, b):
        return 'other values'
  return ''


def _differences(dtype: torch.dtype, part: int) -> dict[str, str]:
  """By operator of a part, each of which runs in a fork of its own."""
  warnings.simplefilter('ignore')
  from torch.testing._internal.common_methods_invocations import op_db
  differences = {}
  for op in op_db[part::_PARTS]:
    if dtype not in op.supported_dtypes('cpu') or 'empty' in op.name:
      continue
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
      signal.alarm(_SECONDS)
      torch.ones(1).to('xla')  # Before a gradient on the CPU.
      os.write(tell, json.dumps(_difference(op, dtype))[:1000].encode())
      os._exit(0)
    os.close(tell)
    with os.fdopen(hear) as file:
      told = file.read()
    _, status = os.waitpid(child, 0)
    found = f'ended: {status}' if status else told.strip('"')
    if found:
      name = '.'.join(filter(None, (op.name, op.variant_test_name)))
      differences[name] = found
  return differences


@pytest.mark.nightly
@pytest.mark.parametrize('dtype', DIFFER, ids=str)
def test_operators_compute_what_torch_computes(dtype: torch.dtype):
  known = {n for names in DIFFER[dtype].values() for n in names.split()}
  found = {}
  for part in range(_PARTS):
    found |= processes.call(_differences, dtype, part, PJRT_DEVICE='CPU').value
  new = {n: why for n, why in found.items() if n not in known}
  assert not new and not known - found.keys(), (new, known - found.keys())
