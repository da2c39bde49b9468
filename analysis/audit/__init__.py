"""Published claims, checked by their own arithmetic and by measurement."""
