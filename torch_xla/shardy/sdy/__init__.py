"""The lowering of shardings to Shardy's terms, and the promises it must keep."""
