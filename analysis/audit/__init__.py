"""Published claims, checked against their own formulas and against measurements."""
