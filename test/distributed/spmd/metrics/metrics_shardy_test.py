"""The metrics over a mesh again, with Shardy on."""

from metrics_test import *

ENVIRONMENT = {
    'PJRT_DEVICE': 'CPU',
    'CPU_NUM_DEVICES': '8',
    'XLA_USE_SHARDY': '1',
}
