"""The reads to the host again, with Shardy on."""

from host_reads_test import *
import pytest

ENVIRONMENT = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_USE_SHARDY': '1',
}
pytestmark = pytest.mark.nightly
