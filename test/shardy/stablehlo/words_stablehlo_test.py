"""Open dimensions, parts of sums and reshapes again, in StableHLO."""

import effect_test
import pytest
import words_test

pytest.importorskip('jaxlib', reason='needs jaxlib: it reads and prints MLIR')
pytestmark = pytest.mark.slow
ENVIRONMENT = {**words_test.ENVIRONMENT, 'XLA_STABLEHLO_COMPILE': '1'}

test_open_and_closed_dimensions = words_test.test_open_and_closed_dimensions
test_a_part_of_a_sum = words_test.test_a_part_of_a_sum
test_a_part_of_no_sum = words_test.test_a_part_of_no_sum
test_reshapes = effect_test.test_a_split_dimension_through_a_reshape
