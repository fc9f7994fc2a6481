"""The patch series under patches/: read, check, apply and export them."""
