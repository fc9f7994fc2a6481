"""Imports what a wheel has of ours, and trains the demo's model for some steps.

`infra.release` runs this file by itself, in an environment that has the wheel. It
needs Python 3.10 alone.

Exit status: 0 if the loss fell and Shardy partitioned every program.
"""

from __future__ import annotations

import importlib
from pathlib import Path
import platform
import runpy
import sys

_DEMO = Path(__file__).resolve().parents[2] / 'examples' / 'train_sharded.py'


def import_all(site: Path) -> int:
  """Imports every module of ours, and returns how many there are.

  What one Python lacks may be used by a module that training does not need.
  """
  names = [
      '.'.join(file.relative_to(site).with_suffix('').parts)
      for package in ('torch_xla/shardy', 'torch_xla/distributed/spmd',
                      'torch_xla_shardy')
      for file in sorted((site / package).rglob('*.py'))
      if file.name not in ('__init__.py', '__main__.py')
  ]
  for name in names:
    importlib.import_module(name)
  return len(names)


def main() -> int:
  """Prints the result in its last line, and returns the exit status."""
  sys.argv[1:] = ['--steps', '8']
  # It chooses the devices and the mode as torch_xla is imported.
  runpy.run_path(str(_DEMO), run_name='__main__')
  import torch
  import torch_xla
  modules = import_all(Path(torch_xla.__file__).parents[1])
  partitioners = {p.partitioner.value for p in torch_xla.shardy.programs()}
  print(f'Python {platform.python_version()}, torch {torch.__version__}: '
        f'{modules} modules imported, the loss fell, partitioned by '
        f'{", ".join(partitioners)}')
  return 0 if partitioners == {'shardy'} else 1


if __name__ == '__main__':
  sys.exit(main())
