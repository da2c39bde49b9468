"""Model clients, weights and the managed vLLM server."""

from hermes_lab.models.build import open_model, open_models

__all__ = ["open_model", "open_models"]
