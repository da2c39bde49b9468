"""Model clients, weights and the managed vLLM server."""

from hermes_lab.models.build import open_again, open_model, open_models

__all__ = ["open_again", "open_model", "open_models"]
