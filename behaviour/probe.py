"""Says what a torch_xla can do, from inside of the process that imports it.

Prints one line of JSON.
"""

import importlib.metadata
import importlib.util
import inspect
import json
import os
import sys
import traceback

from .suites import TESTS


def main():
  # Whatever a library prints: stdout is the answer's.
  answer = os.dup(1)
  os.dup2(2, 1)
  sys.path.insert(0, str(TESTS))
  try:
    result = _facts()
  except BaseException:  # pylint: disable=broad-except
    result = _error('does not work')
  with os.fdopen(answer, 'w') as file:
    file.write(json.dumps(result))
  # The runtime's threads are of no interest any more.
  sys.stderr.flush()
  os._exit(0)


def _facts():
  for name in ('torch', 'torch_xla'):
    spec = importlib.util.find_spec(name)
    # A folder of that name is no package.
    if spec is None or spec.origin is None:
      return {'missing': name}
  import torch_xla_form
  os.environ.update(torch_xla_form.OFF)
  try:
    import torch
    import torch_xla
    import torch_xla.distributed.spmd as xs
  except BaseException:  # pylint: disable=broad-except
    return _error('cannot be imported')
  try:
    version = importlib.metadata.version('torch_xla')
  except importlib.metadata.PackageNotFoundError:
    version = 'of no known version'
  has_v2 = hasattr(xs.Mesh, '_get_op_sharding_args_v2')
  has_priority = 'priority' in inspect.signature(xs.mark_sharding).parameters
  return dict(
      file=torch_xla.__file__,
      extension=sys.modules['_XLAC'].__file__,
      version=version,
      torch=torch.__version__,
      python=sys.version.split()[0],
      form=torch_xla_form.form(),
      features={
          'dynamo-replicated-spec': _retrace(),
          'graph-identity': _identity(),
          'v2-sharding': _has(has_v2, 'Mesh._get_op_sharding_args_v2'),
          'sharding-priority': _has(has_priority, 'mark_sharding(priority=)')
      })


def _error(what_is_wrong):
  lines = traceback.format_exc().strip().splitlines()[-6:]
  return {'error': '\n'.join([f'{what_is_wrong}:', *lines])}


def _has(is_present, name):
  return [is_present, name if is_present else f'there is no {name}']


def _identity():
  import torch
  from torch_xla import _XLAC
  a, b = torch.ones(2).to('xla'), torch.ones(2).to('xla')
  first, other = (
      _XLAC._get_graph_hash([graph])
      for graph in ((a - b) * (a / b), (a - b) * (b / a)))
  return [
      first != other, '(a - b) * (a / b) and (a - b) * (b / a) have '
      f'{"hashes of their own" if first != other else "one hash"}'
  ]


def _retrace():
  try:
    traces, steps = _traces()
  except Exception as e:  # pylint: disable=broad-except
    first = str(e).split('\n', 1)[0]
    return [False, f'torch.compile ends with {type(e).__name__}: {first}']
  return [
      traces == 1,
      f'torch.compile, {steps} steps with fresh inputs: traces {traces}'
  ]


def _traces():
  import torch
  from torch_xla._dynamo import dynamo_bridge
  import torch_xla.runtime as xr
  xr.use_spmd()
  count, trace = [], dynamo_bridge.extract_graph_helper

  def counted(*args):
    count.append(1)
    return trace(*args)

  dynamo_bridge.extract_graph_helper = counted
  f = torch.compile(lambda a: a + 1, backend='openxla')
  steps = 3
  for _ in range(steps):
    f(torch.ones(8).to('xla')).cpu()
  return len(count), steps


if __name__ == '__main__':
  main()
