"""Makes the memory models of `tests/fixtures/memory`, and what a second computation makes of them.

The computation follows section 2.2 of Qian et al., "MemoRAG: Moving towards Next-Gen RAG Via Memory-Inspired
Knowledge Discovery", with the layouts that the published models' configurations name. It computes in 64-bit floats,
row by row and head by head, and keeps every slot by itself: nothing of it is shared with the code under test.

    python memory_fixtures.py OUT               makes them
    python memory_fixtures.py --check FOLDER    reads a folder of the same layout and compares
"""

import hashlib
import json
import math
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

# Two correct computations, of which one is in 32-bit floats, differ by a few 1e-5.
TOLERANCE = 1e-4
# No greedy choice may hang on rounding.
LEAST_LEAD = 0.02

VOCABULARY, WINDOW = 52, 8
FULL, TAIL, PROMPT, GREEDY = 3 * WINDOW, 3, 4, 9
BASE = dict(
    vocab_size=VOCABULARY,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    max_position_embeddings=256,
    hidden_act="silu",
    tie_word_embeddings=False,
    bos_token_id=0,
    eos_token_id=2,
    beacon_window=WINDOW,
    beacon_stride=WINDOW,
    beacon_attn="full-coverage",
    beacon_attend_prev=True,
    beacon_ratio=[2, 4, 8],
    beacon_ratio_mix="step-random",
    beacon_embed_init="eos",
    beacon_sink_size=0,
    beacon_pos="interleave",
)
MODELS = {
    # Biases, and the projections of the published models.
    "qwen2": dict(
        model_type="qwen2",
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-6,
        rope_theta=1000.0,
        # Of the base model; memory models ignore it.
        use_sliding_window=False,
        sliding_window=4,
        beacon_param=["q", "k", "v"],
    ),
    # No biases, one key head for all; memory tokens share the queries' projection, and have one behind the attention.
    "mistral": dict(
        model_type="mistral",
        num_attention_heads=4,
        num_key_value_heads=1,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        sliding_window=4,
        beacon_param=["k", "v", "o"],
    ),
}
# Of these the memory in the end is kept, too.
FINAL = ["r4_tail", "mix_step_random", "sink", "append_step_expansion", "skip_first", "skip_last"]
# Name, settings that differ, tokens of the context, what is kept as it is.
CASES = [
    ("r2_full", dict(beacon_ratio=[2]), FULL, {}),
    ("r2_tail", dict(beacon_ratio=[2]), FULL + TAIL, {}),
    ("r4_full", dict(beacon_ratio=[4]), FULL, {}),
    ("r4_tail", dict(beacon_ratio=[4]), FULL + TAIL, {}),
    ("r8_full", dict(beacon_ratio=[8]), FULL, {}),
    ("r8_tail", dict(beacon_ratio=[8]), FULL + TAIL, {}),
    ("short_context", dict(beacon_ratio=[2]), WINDOW - 3, {}),
    ("mix_sequence", dict(beacon_ratio_mix="sequence"), FULL + TAIL, {}),
    ("mix_step_random", dict(beacon_ratio=[0, 2, 4, 8]), FULL + TAIL, {}),
    ("mix_instance_random", dict(beacon_ratio_mix="instance-random"), FULL + TAIL, {}),
    # With 20 positions there is room for 32 tokens by ratio 2 and for 56 by ratio 4.
    (
        "mix_adapt",
        dict(beacon_ratio_mix="adapt-12", max_position_embeddings=20),
        FULL + TAIL,
        {},
    ),
    ("ratio0_raw", dict(beacon_ratio=[0]), FULL + TAIL, {}),
    ("sink", dict(beacon_ratio=[4], beacon_sink_size=3), FULL + TAIL, {}),
    ("append_full_coverage", dict(beacon_ratio=[4], beacon_pos="append"), FULL + TAIL, {}),
    (
        "append_step_expansion",
        dict(beacon_ratio=[2], beacon_pos="append", beacon_attn="step-expansion"),
        FULL + TAIL,
        {},
    ),
    (
        "append_step_expansion_blind",
        dict(
            beacon_ratio=[2],
            beacon_pos="append",
            beacon_attn="step-expansion",
            beacon_attend_prev=False,
        ),
        FULL + TAIL,
        {},
    ),
    ("skip_first", dict(beacon_ratio=[4]), FULL + TAIL, dict(skip_first=5)),
    ("skip_last", dict(beacon_ratio=[2]), FULL + TAIL, dict(skip_last=21)),
]


def generator(label):
    seed = int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "little")
    return np.random.default_rng(seed)


def random_weights(name, config):
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    width = hidden // config["num_attention_heads"]
    queries, keys = hidden, config["num_key_value_heads"] * width
    made = {}

    def normal(part, shape, scale, mean=0.0):
        values = mean + generator(f"{name}/{part}").standard_normal(shape) * scale
        made[part] = values.astype(np.float32)

    def matrix(part, rows, columns, gain=1.5):
        normal(part, (rows, columns), gain / math.sqrt(columns))

    normal("model.embed_tokens.weight", (VOCABULARY, hidden), 1.0)
    normal("model.beacon_embed_tokens.weight", (1, hidden), 1.0)
    for layer in range(config["num_hidden_layers"]):
        root = f"model.layers.{layer}"
        for part in ("input_layernorm", "post_attention_layernorm"):
            normal(f"{root}.{part}.weight", hidden, 0.1, mean=1.0)
        for own in ("", "beacon_"):
            for part, rows in (("q", queries), ("k", keys), ("v", keys), ("o", hidden)):
                if own and part not in config["beacon_param"]:
                    continue
                projection = f"{root}.self_attn.{own}{part}_proj"
                matrix(f"{projection}.weight", rows, queries if part == "o" else hidden)
                if config["model_type"] == "qwen2" and part != "o":
                    normal(f"{projection}.bias", rows, 0.3)
        matrix(f"{root}.mlp.gate_proj.weight", inner, hidden)
        matrix(f"{root}.mlp.up_proj.weight", inner, hidden)
        matrix(f"{root}.mlp.down_proj.weight", hidden, inner)
    normal("model.norm.weight", hidden, 0.1, mean=1.0)
    matrix("lm_head.weight", VOCABULARY, hidden, gain=3.0)
    return made


class Slot:
    """What the model remembers of one token: for each layer its key before it is turned, and its value."""

    def __init__(self, is_memory):
        self.is_memory = is_memory
        self.keys, self.values = [], []


class Model:
    def __init__(self, config, weights):
        self.config = config
        self.weights = {name: values.astype(np.float64) for name, values in weights.items()}
        self.layers = config["num_hidden_layers"]
        self.heads, self.groups = config["num_attention_heads"], config["num_key_value_heads"]
        self.width = config["hidden_size"] // self.heads
        self.memory_id = config["vocab_size"]

    def norm(self, state, name):
        mean = (state * state).mean() + self.config["rms_norm_eps"]
        return state / math.sqrt(mean) * self.weights[f"{name}.weight"]

    def project(self, state, layer, part, is_memory):
        """By the memory tokens' own projection if the row is one of theirs and they have one."""
        own = "beacon_" if is_memory and part in self.config["beacon_param"] else ""
        name = f"model.layers.{layer}.self_attn.{own}{part}_proj"
        return self.weights[f"{name}.weight"] @ state + self.weights.get(f"{name}.bias", 0.0)

    def turn(self, heads, position):
        """Heads `[heads, width]`, of which the first half is turned with the second."""
        half = self.width // 2
        angles = position * self.config["rope_theta"] ** (-2.0 * np.arange(half) / self.width)
        first, second = heads[:, :half], heads[:, half:]
        cosines, sines = np.cos(angles), np.sin(angles)
        turned = (first * cosines - second * sines, second * cosines + first * sines)
        return np.concatenate(turned, axis=1)

    def step(self, cached, ids, positions, sees):
        """States behind the last norm, and the slots, of new rows behind `cached` slots.

        Cached slots have the positions 0, 1, .., new rows those given; `sees(row, slot)` counts rows from the first
        new one and slots from the first cached one.
        """
        new = [Slot(token == self.memory_id) for token in ids]
        every = cached + new
        places = list(range(len(cached))) + list(positions)
        words, memory_word = "model.embed_tokens.weight", "model.beacon_embed_tokens.weight"
        states = []
        for token in ids:
            is_memory = token == self.memory_id
            states.append(self.weights[memory_word][0] if is_memory else self.weights[words][token])
        for layer in range(self.layers):
            root = f"model.layers.{layer}"
            queries = []
            for slot, state, position in zip(new, states, positions):
                normal = self.norm(state, f"{root}.input_layernorm")
                query = self.project(normal, layer, "q", slot.is_memory)
                queries.append(self.turn(query.reshape(self.heads, self.width), position))
                for kept, part in ((slot.keys, "k"), (slot.values, "v")):
                    projected = self.project(normal, layer, part, slot.is_memory)
                    kept.append(projected.reshape(self.groups, self.width))
            keys = [self.turn(slot.keys[layer], place) for slot, place in zip(every, places)]
            keys = np.array(keys)
            values = np.array([slot.values[layer] for slot in every])
            for row, slot in enumerate(new):
                seen = [at for at in range(len(every)) if sees(row, at)]
                attended = []
                for head in range(self.heads):
                    group = head // (self.heads // self.groups)
                    scores = keys[seen, group] @ queries[row][head] / math.sqrt(self.width)
                    shares = np.exp(scores - scores.max())
                    attended.append(shares / shares.sum() @ values[seen, group])
                attended = np.concatenate(attended)
                state = states[row] + self.project(attended, layer, "o", slot.is_memory)
                normal = self.norm(state, f"{root}.post_attention_layernorm")
                gate = self.weights[f"{root}.mlp.gate_proj.weight"] @ normal
                up = self.weights[f"{root}.mlp.up_proj.weight"] @ normal
                inner = gate / (1 + np.exp(-gate)) * up
                states[row] = state + self.weights[f"{root}.mlp.down_proj.weight"] @ inner
        return [self.norm(state, "model.norm") for state in states], new


class Ratios:
    """The ratio of each window, chosen when it begins."""

    def __init__(self, settings):
        self.settings = settings
        self.chosen = []
        # As the reference does where chance decides.
        self.chance = np.random.default_rng(42)

    def next(self, known):
        """`known`: how many tokens of the text are known."""
        settings = self.settings
        window, mix = settings["beacon_window"], settings["beacon_ratio_mix"]
        ratios = settings["beacon_ratio"]
        if len(ratios) == 1:
            ratio = ratios[0]
        else:
            ratios = [ratio for ratio in ratios if ratio == 0 or window % ratio == 0]
            if mix == "step-random":
                ratio = int(self.chance.choice(ratios))
            elif mix == "sequence":
                ratio = ratios[len(self.chosen) % len(ratios)]
            elif self.chosen:
                ratio = self.chosen[0]
            elif mix == "instance-random":
                ratio = int(self.chance.choice(ratios))
            else:
                total = known + int(mix.removeprefix("adapt-"))
                most = settings["max_position_embeddings"]
                room = {r: (most - window) * r + window if r > 0 else most for r in ratios}
                enough = [r for r in ratios if room[r] >= total]
                ratio = min(enough, key=room.get) if enough else max(ratios)
        self.chosen.append(ratio)
        return ratio


class Memory:
    """What was read, as three lists of slots, and the window that is open."""

    def __init__(self, model, settings, skip):
        self.model, self.settings = model, settings
        self.skip_first, self.skip_last = skip.get("skip_first", 0), skip.get("skip_last")
        self.sink, self.memory, self.open = [], [], []
        self.ratios, self.ratio = Ratios(settings), None
        self.tokens = self.fill = 0
        self.steps = []

    def extent(self):
        return dict(
            sink=len(self.sink),
            beacon=len(self.memory),
            raw=len(self.open),
            raw_is_beacon=[int(slot.is_memory) for slot in self.open],
        )

    def read(self, ids):
        """Logits behind each of `ids`."""
        rest, logits = list(ids), []
        while rest:
            logits.extend(self.step(rest))
        return np.array(logits)

    def step(self, rest):
        """Reads the first of `rest` that belong together, and removes them."""
        if self.tokens < self.skip_first:
            return self.compute(take(rest, self.skip_first - self.tokens), self.join_sink)
        if self.skip_last is not None and self.tokens >= self.skip_last:
            return self.compute(take(rest, len(rest)), self.stay_open)
        if self.ratio is None:
            self.ratio = self.ratios.next(self.tokens + len(rest))
        room = self.settings["beacon_window"] - self.fill
        if self.skip_last is not None:
            room = min(room, self.skip_last - self.tokens)
        words = take(rest, room)
        is_interleaved = self.settings["beacon_pos"] == "interleave"
        ids = []
        for word in words:
            ids.append(word)
            self.fill += 1
            if is_interleaved and self.ratio and self.fill % self.ratio == 0:
                ids.append(self.model.memory_id)
        if self.fill < self.settings["beacon_window"]:
            return self.compute(ids, self.stay_open)
        if not is_interleaved and self.ratio:
            ids += [self.model.memory_id] * (self.settings["beacon_window"] // self.ratio)
        return self.compute(ids, self.complete)

    def compute(self, ids, keep):
        cached = self.sink + self.memory + self.open
        front, begin = len(self.sink) + len(self.memory), len(cached)
        words = [row for row, token in enumerate(ids) if token != self.model.memory_id]
        positions = list(range(begin, begin + len(ids)))

        def sees(row, slot):
            return slot <= begin + row

        if self.settings["beacon_attn"] == "step-expansion" and len(words) < len(ids):
            ratio, sees_earlier = self.ratio, self.settings["beacon_attend_prev"]
            first = begin + len(words)
            for number, row in enumerate(range(len(words), len(ids))):
                last_word = front + (number + 1) * ratio - 1
                positions[row] = last_word + (number + 1 if sees_earlier else 1)

            def sees(row, slot):
                if row < len(words) or slot < front:
                    return slot <= begin + row
                if slot < first:
                    return slot < front + (row - len(words) + 1) * ratio
                return slot <= begin + row if sees_earlier else slot == begin + row

        states, new = self.model.step(cached, ids, positions, sees)
        self.tokens += len(words)
        self.steps.append(
            dict(
                raw=[self.tokens - len(words), self.tokens],
                n_raw=len(words),
                n_beacon=len(ids) - len(words),
                cache_before=begin,
            )
        )
        keep(new)
        self.steps[-1]["cache_after"] = [len(self.sink), len(self.memory), len(self.open)]
        return [self.model.weights["lm_head.weight"] @ states[row] for row in words]

    def join_sink(self, new):
        self.sink += new

    def stay_open(self, new):
        self.take_sink(new)
        self.open += new

    def complete(self, new):
        self.take_sink(new)
        window = self.open + new
        self.memory += [slot for slot in window if slot.is_memory or self.ratio == 0]
        self.open, self.fill, self.ratio = [], 0, None

    def take_sink(self, new):
        """As long as there is no memory, the first slots of every step are the sink."""
        most = self.settings["beacon_sink_size"]
        if most > 0 and not self.memory:
            self.sink = new[:most]

    def tensors(self, prefix):
        made = {}
        for part, slots in (("sink", self.sink), ("beacon", self.memory), ("raw", self.open)):
            for what in ("keys", "values"):
                kept = [getattr(slot, what) for slot in slots]
                if kept:
                    # [slots, layers, groups, width] to [layers, groups, slots, width]
                    made[f"{prefix}.{part}_{what[0]}"] = np.array(kept).transpose(1, 2, 0, 3)
        return made


def take(rest, count):
    taken, rest[:] = rest[:count], rest[count:]
    return taken


def run(model, beacon, skip, context, prompt, greedy):
    """Reads a context and a prompt and continues it, as told by `greedy` or so many tokens by what is likeliest."""
    memory = Memory(model, {**model.config, **beacon}, skip)
    tensors, facts = {}, {}
    tensors["context_logits_last"] = memory.read(context)[-1]
    tensors.update(memory.tensors("memory"))
    facts["context_windows"], memory.steps = memory.steps, []
    facts["memory_after_context"] = memory.extent()
    tensors["prompt_logits"] = memory.read(prompt)
    facts["prompt_windows"], memory.steps = memory.steps, []
    facts["memory_after_prompt"] = memory.extent()
    logits, rows, chosen = tensors["prompt_logits"][-1], [], []
    count = greedy if isinstance(greedy, int) else len(greedy)
    for at in range(count):
        rows.append(logits)
        chosen.append(int(logits.argmax()) if isinstance(greedy, int) else int(greedy[at]))
        if at + 1 < count:
            logits = memory.read([chosen[-1]])[0]
    facts["memory_after_greedy"] = memory.extent()
    facts["ratios"] = memory.ratios.chosen
    tensors["greedy_logits"] = np.array(rows)
    tensors.update(memory.tensors("memory_final"))
    best = np.sort(tensors["greedy_logits"], axis=1)
    facts["greedy_ids"] = chosen
    facts["greedy_min_margin"] = float((best[:, -1] - best[:, -2]).min())
    return tensors, facts


def check(folder):
    config = json.loads((folder / "config.json").read_text())
    model = Model(config, load_file(folder / "model.safetensors"))
    for case in json.loads((folder / "manifest.json").read_text())["cases"]:
        if "reference_fails" in case:
            continue
        stored = load_file(folder / "cases" / f"{case['name']}.safetensors")
        inputs = [stored.pop(f"{part}_ids").tolist() for part in ("context", "prompt", "greedy")]
        made, facts = run(model, case["beacon"], case["skip"], *inputs)
        for name in ("context", "prompt", "greedy"):
            assert facts[f"memory_after_{name}"].items() >= case[f"memory_after_{name}"].items()
        off = 0.0
        for name, expected in stored.items():
            assert made[name].shape == expected.shape, f"{case['name']}: {name}"
            off = max(off, np.abs(made[name] - expected).max())
        likeliest = made["greedy_logits"].argmax(axis=1).tolist()
        assert likeliest == inputs[2], f"{case['name']}: another continuation"
        print(f"{case['name']}: {len(stored)} tensors, off by {off:.1e}")
        assert off < TOLERANCE, case["name"]


def make(out):
    for name, shape in MODELS.items():
        config = {**BASE, **shape}
        weights = random_weights(name, config)
        model = Model(config, weights)
        place = out / name
        (place / "cases").mkdir(parents=True, exist_ok=True)
        (place / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        save_file(weights, place / "model.safetensors")
        cases = []
        for case, beacon, length, skip in CASES:
            # A text whose continuation no rounding decides.
            for attempt in range(100):
                ids = generator(f"{name}/{case}/{attempt}").integers(0, VOCABULARY, length + PROMPT)
                context, prompt = ids[:length].tolist(), ids[length:].tolist()
                tensors, facts = run(model, beacon, skip, context, prompt, GREEDY)
                if facts["greedy_min_margin"] >= LEAST_LEAD:
                    break
            else:
                sys.exit(f"{name}/{case}: every continuation hangs on rounding")
            tensors = {
                part: np.ascontiguousarray(values, dtype=np.float32)
                for part, values in tensors.items()
                if case in FINAL or not part.startswith("memory_final.")
            }
            for part, values in (("context", context), ("prompt", prompt)):
                tensors[f"{part}_ids"] = np.array(values, dtype=np.int32)
            tensors["greedy_ids"] = np.array(facts["greedy_ids"], dtype=np.int32)
            save_file(tensors, place / "cases" / f"{case}.safetensors")
            beacon = dict(beacon_ratio_mix=config["beacon_ratio_mix"]) | beacon
            entry = dict(name=case, beacon=beacon, skip=skip, **facts)
            cases.append(json.dumps(entry))
            spread, lead = tensors["prompt_logits"].std(), facts["greedy_min_margin"]
            print(f"{name}/{case}: ratios {facts['ratios']}, logits {spread:.1f}, lead {lead:.3f}")
        # A line for each case.
        (place / "manifest.json").write_text('{"cases": [\n' + ",\n".join(cases) + "\n]}\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--check", folder]:
            check(Path(folder))
        case [out]:
            make(Path(out))
        case _:
            sys.exit(__doc__)
