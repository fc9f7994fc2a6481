"""The form of the torch_xla that is tested, and what switches its modes on.

The tests here use nothing that only one form has. `wheel` is this project's:
Python, behind a door to the compiler. `native` is one whose `_XLAC` writes V2
shardings and hands priorities on itself.
"""

import importlib.util
from pathlib import Path


def form() -> str:
  """`wheel` or `native`; imports nothing."""
  package = Path(importlib.util.find_spec('torch_xla').origin).parent
  return 'wheel' if (package / 'shardy' / '__init__.py').is_file() else 'native'


# V2 shardings; and those with Shardy, which is where priorities count.
_SWITCHES = {
    'wheel': ({
        'XLA_SHARDING_V2': '1'
    }, {
        'XLA_USE_SHARDY': '1'
    }),
    'native': ({
        'CONVERT_SHLO_TO_SHARDY': '1'
    }, {
        'CONVERT_SHLO_TO_SHARDY': '1',
        'XLA_STABLEHLO_COMPILE': '1'
    }),
}

OFF = {'PJRT_DEVICE': 'CPU', 'CPU_NUM_DEVICES': '8'}
V2, SHARDY = ({**OFF, **switches} for switches in _SWITCHES[form()])
