"""Model clients, weights and the managed vLLM server."""
