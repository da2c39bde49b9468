"""The command line, batches, lanes, resume and progress."""
