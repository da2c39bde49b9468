"""GGUF -> Hugging Face folder, in a separate process: `python -m hermes_lab.models.convert GGUF FOLDER`.

The separate process keeps torch (1 GB) out of the harness, which does not need it otherwise.
"""

import importlib.util
import sys
from functools import cache
from pathlib import Path

END_OF_TURN = "<|im_end|>"


def convert(gguf: Path, folder: Path) -> None:
    """Writes bfloat16 safetensors, the tokenizer, and a chat template that supports tools, into `folder`.

    The packaged model's own template ignores tools. It uses ChatML, so the Qwen2.5 template, which is the Hermes
    format, fits it. The text comes from TRL, whose trainers recognise it.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

    _parse_once()
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    end = tokenizer.convert_tokens_to_ids(END_OF_TURN)
    tokenizer.eos_token = tokenizer.pad_token = END_OF_TURN
    tokenizer.clean_up_tokenization_spaces = False  # otherwise decoding drops spaces that the model wrote
    tokenizer.chat_template = tool_template()
    # Otherwise it is true under HF_HUB_OFFLINE=1, and the file has another digest than the one that adapters record.
    tokenizer.init_kwargs["local_files_only"] = False
    tokenizer.save_pretrained(folder)
    # Without `dequantize` the model stays tied to its GGUF types, and saving raises.
    model = AutoModelForCausalLM.from_pretrained(
        **source, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    model.config.eos_token_id = end
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=end, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(folder)


def _parse_once() -> None:
    """Keeps what transformers would read from the file four times, and make again for each of the model's modules.

    That would be most of the work. It imports these names where it calls them, and this process converts one file.
    """
    import gguf

    gguf.GGUFReader = cache(gguf.GGUFReader)
    gguf.get_tensor_name_map = cache(gguf.get_tensor_name_map)


def tool_template() -> str:
    """The Qwen2.5 chat template of the installed TRL, located without importing TRL."""
    spec = importlib.util.find_spec("trl")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("trl is not installed")
    return (Path(spec.origin).parent / "chat_templates" / "qwen2_5.jinja").read_text()


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
