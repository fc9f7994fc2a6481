"""Runs `python -m torch_xla_conformance`."""

import sys

from .main import main

if __name__ == '__main__':
  sys.exit(main())
