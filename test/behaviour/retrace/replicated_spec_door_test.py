"""The cases of pytorch/xla#9755 again, with shardings in V2."""

import pytest
from replicated_spec_test import *
from torch_xla_form import V2

ENVIRONMENT = V2
pytestmark = pytest.mark.nightly  # `door_test` compiles in V2 as well.
