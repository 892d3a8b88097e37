"""Makes the reader of `tests/fixtures/reader`: a tiny random base, an adapter, and what PyTorch makes of both.

The network is that of the training program (`reader/network.py`). Windows, spans and shares are computed here in the
plainest way, and share nothing with the code under test.

    python reader_fixtures.py OUT
"""

import json
import math
import sys
import unicodedata
from pathlib import Path

import blake3
import numpy as np
import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reader"))

from network import Reader  # noqa: E402

SEED = 27
# Heads of 32, as the packed kernels want them.
HIDDEN, INNER, LAYERS, HEADS, POSITIONS = 64, 32, 2, 2, 80
WINDOW, QUESTION, HEADING, STRIDE, LONGEST = 64, 12, 6, 16, 8
CALIBRATION = (0.3, 0.7, -0.4)
# Candidates of a window and of a passage, and spans in a result.
CANDIDATES, SPANS = 20, 5
# No order of spans may hang on rounding.
LEAST_LEAD = 1e-4

WORDS = "the who where when did live lives move moved to in she he of and april may lisbon vera user dog river".split()
CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
PUNCTUATION = "!?.,;:-'()[]"
# A syllable is several tokens, which share its range.
SYLLABLES = unicodedata.normalize("NFD", "한글")

CASES = [
    ("where did vera move?", "", "Vera moved to Lisbon in April. She lives by the river."),
    ("When did she move?", "user, 2023-05-03", "she moved in may, and he in april"),
    ("who?", "", "x"),
    (
        "Who was the one that moved to the house by the river, in April or in May, with a dog and a letter?",
        "A heading of more words than are read of it, and then some",
        "He did. " * 3 + "Née Zoë, 茶と本 — 한글 🍵, cafe\u0301! " + "The dog lives in Lisbon; the river in April. " * 9,
    ),
    ("", "", "the dog of vera\u0000 and\tthe [SEP] river " * 5),
]


def tokenizer():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PUNCTUATION, *CHARACTERS]
    tokens += [f"##{character}" for character in CHARACTERS + SYLLABLES]
    tokens += [*WORDS, *SYLLABLES, *"茶本—"]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    made = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = BertNormalizer(lowercase=True)
    made.pre_tokenizer = BertPreTokenizer()
    made.add_special_tokens(tokens[:5])
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    made.post_processor = TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    return made, len(vocabulary)


def shapes(vocabulary):
    """Returns the shape of every parameter of the base."""
    made = {
        "embeddings.word_embeddings.weight": (vocabulary, HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        for part, rows, columns in (
            ("attention.self.query", HIDDEN, HIDDEN),
            ("attention.self.key", HIDDEN, HIDDEN),
            ("attention.self.value", HIDDEN, HIDDEN),
            ("attention.output.dense", HIDDEN, HIDDEN),
            ("intermediate.dense", INNER, HIDDEN),
            ("output.dense", HIDDEN, INNER),
        ):
            made[f"{layer}.{part}.weight"] = (rows, columns)
            made[f"{layer}.{part}.bias"] = (rows,)
    for norm in norms:
        made[f"{norm}.weight"] = made[f"{norm}.bias"] = (HIDDEN,)
    return made


def random_vector(chance, name, shape):
    return (float(name.endswith("LayerNorm.weight")) + chance.normal(0, 0.1, shape)).astype(np.float32)


def make_base(folder, chance):
    words, vocabulary = tokenizer()
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    for file, content in {
        "config.json": dict(
            model_type="bert", hidden_act="gelu", vocab_size=vocabulary, hidden_size=HIDDEN, intermediate_size=INNER,
            num_hidden_layers=LAYERS, num_attention_heads=HEADS, max_position_embeddings=POSITIONS, type_vocab_size=2,
            layer_norm_eps=1e-12,
        ),
        "modules.json": [dict(path="", type="Transformer"), dict(path="1_Pooling", type="Pooling")],
        "1_Pooling/config.json": dict(word_embedding_dimension=HIDDEN, pooling_mode_mean_tokens=True),
    }.items():
        (folder / file).write_text(json.dumps(content) + "\n")
    words.save(str(folder / "tokenizer.json"), pretty=False)
    weights = {}
    for name, shape in shapes(vocabulary).items():
        matrix = chance.normal(0, 1 if "word_" in name else 1 / math.sqrt(shape[-1]), shape)
        # Half the size, and the same in 32-bit floats.
        weights[name] = (matrix if len(shape) == 2 else random_vector(chance, name, shape)).astype(np.float16)
    save_file(weights, folder / "model.safetensors")
    return words, weights


def make_adapter(file, folder, weights, chance):
    """Returns the values of the parameters that the adapter changes, and of the heads."""
    stored, values = {}, {}
    for name, base in weights.items():
        if not name.startswith("encoder."):
            continue
        if base.ndim == 2:
            steps = chance.integers(-128, 128, base.shape).astype(np.int8)
            scales = chance.uniform(2e-4, 1e-3, len(base)).astype(np.float32)
            stored[name], stored[f"{name}.scale"] = steps, scales
            values[name] = base.astype(np.float32) + scales[:, None] * steps.astype(np.float32)
        else:
            stored[name] = values[name] = random_vector(chance, name, base.shape)
    for head in ("span", "verdict"):
        for part, shape in (("weight", (2, HIDDEN)), ("bias", (2,))):
            name = f"{head}.{part}"
            stored[name] = values[name] = chance.normal(0, 0.25, shape).astype(np.float32)
    content = b"".join((folder / part).read_bytes() for part in ("tokenizer.json", "model.safetensors"))
    save_file(stored, file, metadata=dict(
        format="clew-reader-1",
        base="tiny",
        base_blake3=blake3.blake3(content).hexdigest(),
        calibration=json.dumps(CALIBRATION),
        window=str(WINDOW),
        question=str(QUESTION),
        heading=str(HEADING),
        stride=str(STRIDE),
        longest_answer=str(LONGEST),
        data=json.dumps([dict(name="nothing", licence="none", examples=0)]),
        quality=json.dumps(dict(f1=0.0)),
        trained="it is random",
    ))
    return values


def windows(words, question, heading, text):
    """Yields tokens, and byte ranges of those of the passage."""
    first, separator = words.token_to_id("[CLS]"), words.token_to_id("[SEP]")

    def ids(part, most):
        return words.encode(part, add_special_tokens=False).ids[:most]

    head = [first, *ids(question, QUESTION), separator]
    if above := ids(heading, HEADING):
        head += [*above, separator]
    passage = words.encode(text, add_special_tokens=False)
    bytes_before = [len(text[:character].encode()) for character in range(len(text) + 1)]
    spans = [[bytes_before[place] for place in offsets] for offsets in passage.offsets]
    room, start = WINDOW - len(head) - 1, 0
    while True:
        yield [*head, *passage.ids[start:start + room], separator], spans[start:start + room]
        if start + room >= len(passage.ids):
            return
        start += room - STRIDE


def logits_of(model, ids, count):
    """Returns logits of starts and ends, of the first token and those of the passage, and the verdict."""
    readable = torch.zeros(1, len(ids), dtype=torch.bool)
    readable[0, 0] = readable[0, len(ids) - 1 - count:-1] = True
    with torch.no_grad():
        starts, ends, verdict = model(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool), readable)
    return starts[readable].tolist(), ends[readable].tolist(), verdict[0].tolist()


def sigmoid(logit):
    return 1 / (1 + math.exp(-logit))


def merged(read):
    """Returns what was read of a passage, of which `read` has the windows."""
    scores, best, relevance = {}, None, 0.0
    for window in read:
        spans, starts, ends = window["spans"], window["starts"], window["ends"]
        none = starts[0] + ends[0]
        found = []
        for first in range(len(spans)):
            for last in range(first, min(first + LONGEST, len(spans))):
                found.append((starts[1 + first] + ends[1 + last] - none, (spans[first][0], spans[last][1])))
        found = sorted(found, reverse=True)[:CANDIDATES]
        for score, span in found:
            scores[span] = max(score, scores.get(span, -math.inf))
        if best is None or found[0][0] > best[0]:
            best = found[0][0], window["verdict"][0]
        relevance = max(relevance, sigmoid(window["verdict"][1]))
    ordered = sorted(((score, span) for span, score in scores.items()), reverse=True)
    for (score, _), (lower, _) in zip(ordered, ordered[1:CANDIDATES + 1]):
        assert score - lower > LEAST_LEAD, "the order of two spans hangs on rounding: take another seed"
    ordered = ordered[:CANDIDATES]
    total = sum(math.exp(score) for score, _ in ordered)
    chosen = []
    for score, (start, end) in ordered:
        if len(chosen) < SPANS and all(end <= other[0] or other[1] <= start for other in chosen):
            chosen.append([start, end, round(math.exp(score) / total, 7)])
    weight, of_verdict, bias = CALIBRATION
    answers = sigmoid(weight * best[0] + of_verdict * best[1] + bias)
    return dict(answers=round(answers, 7), relevance=round(relevance, 7), spans=chosen)


def make(out):
    chance = np.random.default_rng(SEED)
    base = out / "base"
    words, weights = make_base(base, chance)
    values = make_adapter(out / "reader.safetensors", base, weights, chance)
    model = Reader(base).eval()
    with torch.no_grad():
        for name, value in values.items():
            head, _, part = name.partition(".")
            target = model.parameter(name) if head == "encoder" else getattr(getattr(model, head), part)
            target.copy_(torch.from_numpy(value))
    cases = []
    for question, heading, text in CASES:
        read = []
        for ids, spans in windows(words, question, heading, text):
            starts, ends, verdict = logits_of(model, ids, len(spans))
            read.append(dict(ids=ids, spans=spans, starts=starts, ends=ends, verdict=verdict))
        result = merged(read)
        print(f"{len(read)} windows, answers {result['answers']:.3f}, spans {len(result['spans'])}")
        for window in read:
            for part in ("starts", "ends", "verdict"):
                window[part] = [round(logit, 6) for logit in window[part]]
        cases.append(json.dumps(dict(question=question, heading=heading, text=text, windows=read, read=result)))
    # A line for each case.
    (out / "expected.json").write_text("[\n" + ",\n".join(cases) + "\n]\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [out]:
            make(Path(out))
        case _:
            sys.exit(__doc__)
