"""Changes programs in HLO, and plans them for mode Shardy."""
