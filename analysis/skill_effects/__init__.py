"""What skills did: how far each got, what it changed, what it leaked."""
