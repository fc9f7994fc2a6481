"""The cases of pytorch/xla#9755 again, with the programs behind the door."""

import pytest
from replicated_spec_test import *

ENVIRONMENT = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_SHARDING_V2': '1',
}
pytestmark = pytest.mark.slow
