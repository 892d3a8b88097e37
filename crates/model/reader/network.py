"""The reader's network: MiniLM's transformer with two small heads.

`span` tells for each token how well an answer begins and ends there. `verdict` tells, from the
state of the first token, whether the passage answers the question, and whether it is about it.
The first token also stands for "no answer" in the span head (Rajpurkar, Jia and Liang, "Know What
You Don't Know", section 5, in the form that Devlin et al., "BERT", section 4.3, gave it).

Parameters have the names of the base's checkpoint, so that what was trained can be compared with
the base name by name. Word and position embeddings are the base's and stay as they are.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

EMBEDDINGS = "embeddings."
HEADS = ("span", "verdict")


def tensors(batch):
    """Returns ids, mask and readable places of a batch, each `[windows, tokens]`."""
    longest = max(len(window.ids) for window in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    mask = torch.zeros(len(batch), longest, dtype=torch.bool)
    readable = torch.zeros(len(batch), longest, dtype=torch.bool)
    for row, window in enumerate(batch):
        ids[row, :len(window.ids)] = torch.tensor(window.ids)
        mask[row, :len(window.ids)] = True
        readable[row, window.begin:window.end] = True
        readable[row, 0] = True
    return ids, mask, readable


class Reader(nn.Module):
    """Transformer and heads. `base` is a folder of the base in Hugging Face layout."""

    def __init__(self, base):
        super().__init__()
        config = json.loads((Path(base) / "config.json").read_text())
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.hidden = config["hidden_size"]
        self.epsilon = config["layer_norm_eps"]
        stored = load_file(Path(base) / "model.safetensors")
        self.base = {
            name: value.float()
            for name, value in stored.items()
            if name.startswith((EMBEDDINGS, "encoder.")) and not name.endswith("position_ids")
        }
        # Names of modules must not have dots; those of a `ParameterDict` either.
        self.trained = nn.ParameterDict({
            name.replace(".", "/"): nn.Parameter(value.clone())
            for name, value in self.base.items()
            if not name.startswith(EMBEDDINGS)
        })
        self.span = nn.Linear(self.hidden, 2)
        self.verdict = nn.Linear(self.hidden, 2)
        for head in (self.span, self.verdict):
            nn.init.normal_(head.weight, std=0.02)
            nn.init.zeros_(head.bias)

    def parameter(self, name):
        """Returns a parameter of the transformer by its name in the base's checkpoint."""
        if name.startswith(EMBEDDINGS):
            return self.base[name]
        return self.trained[name.replace(".", "/")]

    def linear(self, states, name):
        weight, bias = self.parameter(f"{name}.weight"), self.parameter(f"{name}.bias")
        return functional.linear(states, weight, bias)

    def normalised(self, states, name):
        weight, bias = self.parameter(f"{name}.weight"), self.parameter(f"{name}.bias")
        return functional.layer_norm(states, (self.hidden,), weight, bias, self.epsilon)

    def states(self, ids, mask, dropout=0.0):
        """Returns the states of tokens, `[texts, tokens, hidden]`.

        `ids` are `[texts, tokens]`, all of type 0; `mask` is true where there is a token.
        """
        texts, tokens = ids.shape
        words = self.parameter("embeddings.word_embeddings.weight")[ids]
        positions = self.parameter("embeddings.position_embeddings.weight")[:tokens]
        kind = self.parameter("embeddings.token_type_embeddings.weight")[0]
        states = self.normalised(words + positions + kind, "embeddings.LayerNorm")
        states = functional.dropout(states, dropout, self.training)
        allowed = mask[:, None, None, :]
        for number in range(self.layers):
            layer = f"encoder.layer.{number}"

            def split(part, layer=layer, states=states):
                projected = self.linear(states, f"{layer}.attention.self.{part}")
                return projected.view(texts, tokens, self.heads, -1).transpose(1, 2)

            attended = functional.scaled_dot_product_attention(
                split("query"), split("key"), split("value"), attn_mask=allowed
            )
            attended = attended.transpose(1, 2).reshape(texts, tokens, self.hidden)
            attended = self.linear(attended, f"{layer}.attention.output.dense")
            attended = functional.dropout(attended, dropout, self.training)
            states = self.normalised(states + attended, f"{layer}.attention.output.LayerNorm")
            inner = functional.gelu(self.linear(states, f"{layer}.intermediate.dense"))
            inner = self.linear(inner, f"{layer}.output.dense")
            inner = functional.dropout(inner, dropout, self.training)
            states = self.normalised(states + inner, f"{layer}.output.LayerNorm")
        return states

    def forward(self, ids, mask, readable, dropout=0.0):
        """Returns start and end logits `[texts, tokens]` and verdicts `[texts, 2]`.

        `readable` is true at the first token and at those of the passage. Elsewhere the logits are
        the lowest number, because no answer is there.
        """
        states = self.states(ids, mask, dropout)
        starts, ends = self.span(states).float().unbind(-1)
        lowest = torch.finfo(torch.float32).min
        verdict = self.verdict(states[:, 0]).float()
        return starts.masked_fill(~readable, lowest), ends.masked_fill(~readable, lowest), verdict

    def heads_parameters(self):
        return [*self.span.parameters(), *self.verdict.parameters()]
