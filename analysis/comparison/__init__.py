"""What differs between arms, runs and weights."""
