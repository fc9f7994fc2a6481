"""`python -m torch_xla.shardy`: the command `torch-xla-shardy`."""

import sys

from torch_xla_shardy.main import main

if __name__ == '__main__':
  sys.exit(main())
