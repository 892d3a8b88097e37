"""A Qwen2 with random weights, and how fast PyTorch runs it: what `clew bench generate` is held against.

    python torch_decoder.py make 0.5b DIR     # a folder in Hugging Face layout
    clew bench generate --model DIR --json
    python torch_decoder.py run DIR           # the same weights in PyTorch

Needs torch, numpy and safetensors. The weights mean nothing, but their shapes are those of the published
models, so that time is spent as it is with those. Rows of the head that stand for a letter are larger than
the others, so that what is said is text.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

SHAPES = {
    "tiny": dict(
        hidden_size=64, intermediate_size=176, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=512, tie_word_embeddings=True,
    ),
    "0.5b": dict(
        hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True,
    ),
    "7b": dict(
        hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
        num_key_value_heads=4, vocab_size=152064, tie_word_embeddings=False,
    ),
}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_letters():
    """How GPT-2's vocabulary writes each byte."""
    letters, unprintable = [], 0
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255:
            letters.append(chr(byte))
        else:
            letters.append(chr(256 + unprintable))
            unprintable += 1
    return letters


def make(shape, folder):
    config = dict(
        SHAPES[shape],
        model_type="qwen2",
        max_position_embeddings=32768,
        rope_theta=1000000.0,
        rms_norm_eps=1e-6,
        hidden_act="silu",
        eos_token_id=258,
    )
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    # Large models as they are published, small ones as this processor computes.
    dtype = torch.bfloat16 if shape == "7b" else torch.float32
    hidden, width = config["hidden_size"], config["intermediate_size"]
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]

    def matrix(rows, columns):
        return (torch.randn(rows, columns) * columns**-0.5).to(dtype)

    words = torch.randn(config["vocab_size"], hidden) * 0.02
    words[32:127] *= 3
    tensors = {"model.embed_tokens.weight": words.to(dtype)}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = words.to(dtype).clone()
    for layer in range(config["num_hidden_layers"]):
        root = f"model.layers.{layer}"
        for norm in ["input_layernorm", "post_attention_layernorm"]:
            tensors[f"{root}.{norm}.weight"] = torch.ones(hidden, dtype=dtype)
        for part, rows in [("q", hidden), ("k", keys), ("v", keys)]:
            tensors[f"{root}.self_attn.{part}_proj.weight"] = matrix(rows, hidden)
            tensors[f"{root}.self_attn.{part}_proj.bias"] = torch.zeros(rows, dtype=dtype)
        tensors[f"{root}.self_attn.o_proj.weight"] = matrix(hidden, hidden)
        tensors[f"{root}.mlp.gate_proj.weight"] = matrix(width, hidden)
        tensors[f"{root}.mlp.up_proj.weight"] = matrix(width, hidden)
        tensors[f"{root}.mlp.down_proj.weight"] = matrix(hidden, width)
    tensors["model.norm.weight"] = torch.ones(hidden, dtype=dtype)
    save_file(tensors, folder / "model.safetensors")
    added = [
        dict(id=256 + place, content=content, special=True, single_word=False, lstrip=False,
             rstrip=False, normalized=False)
        for place, content in enumerate(SPECIAL)
    ]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    vocabulary = {letter: byte for byte, letter in enumerate(byte_letters())}
    tokenizer = dict(
        version="1.0", added_tokens=added, pre_tokenizer=level, decoder=level,
        model=dict(type="BPE", vocab=vocabulary, merges=[]),
    )
    settings = dict(eos_token=SPECIAL[2], chat_template=TEMPLATE)
    for name, content in [
        ("config.json", config), ("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)
    ]:
        (folder / name).write_text(json.dumps(content))


class Decoder:
    def __init__(self, folder, device, dtype):
        self.config = json.loads((folder / "config.json").read_text())
        tensors = load_file(folder / "model.safetensors")
        self.weights = {name: tensor.to(device, dtype) for name, tensor in tensors.items()}
        self.device, self.dtype = device, dtype
        self.heads = self.config["num_attention_heads"]
        self.kv_heads = self.config["num_key_value_heads"]
        self.width = self.config["hidden_size"] // self.heads
        steps = torch.arange(0, self.width, 2, dtype=torch.float32, device=device) / self.width
        self.frequencies = self.config["rope_theta"] ** -steps

    def norm(self, states, name):
        weight = self.weights[f"{name}.weight"]
        return F.rms_norm(states, weight.shape, weight, self.config["rms_norm_eps"])

    def turn(self, heads, start):
        positions = torch.arange(start, start + heads.shape[2], device=self.device)
        angles = torch.outer(positions.float(), self.frequencies).repeat(1, 2)
        first, second = heads.chunk(2, dim=-1)
        across = torch.cat([-second, first], dim=-1)
        return heads * angles.cos().to(self.dtype) + across * angles.sin().to(self.dtype)

    def step(self, ids, cache):
        """Logits of the token after `ids` `[texts, tokens]`; `cache` holds what was read before."""
        start = cache[0][0].shape[2] if cache else 0
        states = self.weights["model.embed_tokens.weight"][ids]
        texts, tokens, hidden = states.shape
        for layer in range(self.config["num_hidden_layers"]):
            root = f"model.layers.{layer}"
            normal = self.norm(states, f"{root}.input_layernorm")

            def heads(part, count):
                name = f"{root}.self_attn.{part}_proj"
                linear = F.linear(normal, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])
                return linear.view(texts, tokens, count, self.width).transpose(1, 2)

            queries = self.turn(heads("q", self.heads), start)
            keys = self.turn(heads("k", self.kv_heads), start)
            values = heads("v", self.kv_heads)
            if start:
                keys = torch.cat([cache[layer][0], keys], dim=2)
                values = torch.cat([cache[layer][1], values], dim=2)
                cache[layer] = (keys, values)
            else:
                cache.append((keys, values))
            attended = F.scaled_dot_product_attention(
                queries, keys, values, is_causal=tokens > 1, enable_gqa=True
            )
            attended = attended.transpose(1, 2).reshape(texts, tokens, hidden)
            states = states + F.linear(attended, self.weights[f"{root}.self_attn.o_proj.weight"])
            normal = self.norm(states, f"{root}.post_attention_layernorm")
            gate = F.silu(F.linear(normal, self.weights[f"{root}.mlp.gate_proj.weight"]))
            up = F.linear(normal, self.weights[f"{root}.mlp.up_proj.weight"])
            states = states + F.linear(gate * up, self.weights[f"{root}.mlp.down_proj.weight"])
        tied = self.config["tie_word_embeddings"]
        head = self.weights["model.embed_tokens.weight" if tied else "lm_head.weight"]
        return F.linear(self.norm(states[:, -1], "model.norm"), head)


def timed(act, device):
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    result = act()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began, result


@torch.inference_mode()
def run(folder, prompt=800, tokens=64):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    decoder = Decoder(folder, device, torch.bfloat16 if device == "cuda" else torch.float32)
    text = torch.randint(48, 58, (16, prompt), device=device)
    decoder.step(text[:1, :16], [])
    reads = [timed(lambda: decoder.step(text[:1], []), device)[0] for _ in range(3)]
    streams = []
    for count in [1, 4, 16]:
        cache = []
        ids = decoder.step(text[:count, :16], cache).argmax(-1, keepdim=True)

        def speak():
            nonlocal ids
            for _ in range(tokens):
                ids = decoder.step(ids, cache).argmax(-1, keepdim=True)

        took, _ = timed(speak, device)
        streams.append(dict(replies=count, said_tokens_per_second=count * tokens / took))
    print(json.dumps(dict(
        torch=torch.__version__, device=device, threads=torch.get_num_threads(),
        read_tokens_per_second=prompt / statistics.median(reads), streams=streams,
    ), indent=2))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", shape, folder] if shape in SHAPES:
            make(shape, Path(folder))
        case ["run", folder]:
            run(Path(folder))
        case _:
            sys.exit(__doc__)
