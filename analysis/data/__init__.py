"""Tables from episode logs."""
