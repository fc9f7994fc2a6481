"""The metrics over a mesh again, with Shardy on."""

from metrics_test import *
import pytest

ENVIRONMENT = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_USE_SHARDY': '1',
}
pytestmark = pytest.mark.nightly
