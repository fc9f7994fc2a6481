"""Plants small faults and sees whether the tests notice."""
