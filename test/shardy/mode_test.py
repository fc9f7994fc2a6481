"""What an environment asks for."""

import pytest
from torch_xla.shardy.mode import (leaves_as_stablehlo, Mode,
                                   mode_from_environment)


@pytest.mark.parametrize('environment, mode', [
    ({}, Mode.OFF),
    ({
        'XLA_USE_SHARDY': '0'
    }, Mode.OFF),
    ({
        'XLA_USE_SHARDY': '1'
    }, Mode.SHARDY),
    ({
        'XLA_USE_SHARDY': 'true'
    }, Mode.SHARDY),
    ({
        'CONVERT_SHLO_TO_SHARDY': '1'
    }, Mode.SHARDY),
    ({
        'XLA_SHARDING_V2': '1'
    }, Mode.V2),
    ({
        'XLA_SHARDING_V2': '1',
        'XLA_USE_SHARDY': '1'
    }, Mode.SHARDY),
    ({
        'XLA_SHARDING_V2': '1',
        'XLA_USE_SHARDY': '0'
    }, Mode.V2),
])
def test_mode_from_environment(environment, mode):
  assert mode_from_environment(environment) is mode


@pytest.mark.parametrize('text, expected', [
    (None, False),
    ('false', False),
    ('2', True),
    ('', False),
    ('yes', False),
    (' 1', True),
    ('-1', True),
])
def test_leaves_as_stablehlo(text, expected):
  """It is read as by `_XLAC`, which bind/stablehlo_compile_test.py asks."""
  name = 'XLA_STABLEHLO_COMPILE'
  environment = {} if text is None else {name: text}
  assert leaves_as_stablehlo(environment) is expected
