"""The way of one program: a plan, its attempts, and the record of it."""
