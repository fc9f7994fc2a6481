"""The metrics over a mesh again, with Shardy on."""

import environments
from metrics_test import *
import pytest

ENVIRONMENT = environments.SHARDY
pytestmark = pytest.mark.nightly
