"""Which mode an environment asks for."""

import pytest
from torch_xla.shardy.mode import Mode, mode_from_environment


@pytest.mark.parametrize('environment, mode', [
    ({}, Mode.OFF),
    ({
        'XLA_USE_SHARDY': '0'
    }, Mode.OFF),
    ({
        'XLA_USE_SHARDY': ''
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
