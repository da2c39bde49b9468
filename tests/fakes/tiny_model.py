"""A random Llama of a few thousand weights with the packaged tokenizer: it trains in seconds."""

from pathlib import Path


def tiny_model(folder: Path) -> Path:
    """Writes a base model that a lock can name."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from hermes_lab.models.weights import PACKAGED, resolve

    tokenizer = AutoTokenizer.from_pretrained(resolve(PACKAGED))
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=len(tokenizer), num_key_value_heads=2, max_position_embeddings=2048, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
