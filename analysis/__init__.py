"""From run folders to tables, fitted learning curves, comparisons and pictures."""
