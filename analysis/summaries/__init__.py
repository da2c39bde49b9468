"""What one run did: counts, costs and warnings."""
