"""Model clients, weights and the managed vLLM server."""

from hermes_lab.models.build import REMOTE, open_again, open_auxiliary, open_judge_model, open_model, open_models

__all__ = ["REMOTE", "open_again", "open_auxiliary", "open_judge_model", "open_model", "open_models"]
