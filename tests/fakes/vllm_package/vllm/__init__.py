"""A stand-in for vLLM, found through PYTHONPATH: the same command line, a process that answers at once."""
