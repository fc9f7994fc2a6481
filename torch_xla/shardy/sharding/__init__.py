"""What a sharding is: its values, its text, and how a mesh gives it."""
