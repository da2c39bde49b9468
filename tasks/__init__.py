"""Task suites: worlds of hidden rules, JSONL files, and the policies that prove them."""
