"""The reads to the host again, with Shardy on."""

import environments
from host_reads_test import *
import pytest

ENVIRONMENT = environments.SHARDY
pytestmark = pytest.mark.nightly
