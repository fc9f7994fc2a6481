"""What a user says of a tensor's sharding, and how programs carry it."""
