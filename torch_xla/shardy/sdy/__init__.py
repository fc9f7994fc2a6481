"""What Shardy is to be told of a program, and what it must keep."""
