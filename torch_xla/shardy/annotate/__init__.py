"""Users' annotations of shardings, and how programs carry them."""
