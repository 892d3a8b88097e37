"""Throughput of ONNX Runtime on all-MiniLM-L6-v2, to compare our encoders with.

Builds the encoder (token embeddings, six layers, masked mean pooling, L2 normalisation) as an ONNX graph
from `model.safetensors`, lets the runtime's graph optimiser fuse what it can, and embeds a file of texts in
batches of similar length. (Writing the runtime's own fused attention operators into the graph by hand was
slower on the CPU.) Only real word pieces are counted, padding is not. Several batch sizes are tried and the
best one is the answer, because that is how a careful user would run it. The rate of numpy's matrix product is
measured beside it, so that runs on machines of different speed, or with other load, can be compared; it is no
upper limit, since the runtime's own kernels may be faster.

    python bench_onnxruntime.py MODEL_FOLDER TEXTS.jsonl --threads 1

MODEL_FOLDER holds `config.json`, `tokenizer.json` and `model.safetensors`. Each line of TEXTS.jsonl is a JSON
string or an object with a `text`. The result is one JSON object on standard output.

Packages: numpy, onnx, onnxruntime, safetensors, tokenizers.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

OPSET = 17
IR_VERSION = 8
BATCH_SIZES = (1, 4, 8, 16, 32)
GEMM_SIZE = 2048
GEMM_REPEATS = 12


def build_graph(folder):
    """The encoder as an ONNX model.

    Inputs are `input_ids` and `attention_mask` `[batch, tokens]`, the output is `embedding` `[batch, hidden]`.
    """
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = load_file(folder / "model.safetensors")
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    nodes, initializers = [], []

    def constant(name, value):
        initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(name):
        return constant(name, weights[name].astype(np.float32))

    def node(operator, inputs, output, **attributes):
        nodes.append(helper.make_node(operator, inputs, [output], name=f"{output}_node", **attributes))
        return output

    def layer_norm(value, prefix, output):
        inputs = [value, weight(f"{prefix}.weight"), weight(f"{prefix}.bias")]
        return node("LayerNormalization", inputs, output, axis=-1, epsilon=config["layer_norm_eps"])

    def linear(value, prefix, output):
        matrix = constant(f"{prefix}.weight", weights[f"{prefix}.weight"].T.astype(np.float32))
        product = node("MatMul", [value, matrix], f"{output}_product")
        return node("Add", [product, weight(f"{prefix}.bias")], output)

    def attention(value, prefix, output):
        """Scores of all pairs of word pieces per head, padding masked out, and the mixed values."""
        split = []
        for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            projected = linear(value, f"{prefix}.{part}", f"{output}_{part}")
            reshaped = node("Reshape", [projected, "split_shape"], f"{output}_{part}_split")
            split.append(node("Transpose", [reshaped], f"{output}_{part}_heads", perm=order))
        scores = node("MatMul", split[:2], f"{output}_scores")
        scaled = node("Div", [scores, "score_scale"], f"{output}_scaled")
        masked = node("Add", [scaled, "additive_mask"], f"{output}_masked")
        shares = node("Softmax", [masked], f"{output}_shares", axis=-1)
        mixed = node("MatMul", [shares, split[2]], f"{output}_mixed")
        merged = node("Transpose", [mixed], f"{output}_merged", perm=[0, 2, 1, 3])
        return node("Reshape", [merged, "merge_shape"], output)

    def gelu(value, output):
        """The exact form, with the error function."""
        error = node("Erf", [node("Div", [value, "sqrt_two"], f"{output}_scaled")], f"{output}_erf")
        gate = node("Add", [error, "one"], f"{output}_gate")
        return node("Mul", [node("Mul", [value, gate], f"{output}_gated"), "half"], output)

    def add_and_norm(value, skip, linear_prefix, norm_prefix, output):
        projected = linear(value, linear_prefix, f"{output}_projected")
        return layer_norm(node("Add", [projected, skip], f"{output}_sum"), norm_prefix, output)

    def layer(state, index):
        prefix = f"encoder.layer.{index}"
        context = attention(state, f"{prefix}.attention.self", f"context_{index}")
        attended = add_and_norm(context, state, f"{prefix}.attention.output.dense",
                                f"{prefix}.attention.output.LayerNorm", f"attended_{index}")
        inner = gelu(linear(attended, f"{prefix}.intermediate.dense", f"inner_{index}"), f"active_{index}")
        return add_and_norm(inner, attended, f"{prefix}.output.dense", f"{prefix}.output.LayerNorm", f"state_{index}")

    def embed():
        # Every text is one segment, so the first segment embedding is a constant and joins the positions.
        segment = weights["embeddings.token_type_embeddings.weight"][0]
        positions = constant("positions", weights["embeddings.position_embeddings.weight"] + segment)
        words = node("Gather", [weight("embeddings.word_embeddings.weight"), "input_ids"], "words")
        length = node("Shape", ["input_ids"], "length", start=1, end=2)
        used = node("Slice", [positions, constant("first_position", np.array([0])), length], "used_positions")
        return layer_norm(node("Add", [words, used], "embedded"), "embeddings.LayerNorm", "state")

    def pool(state):
        """Mean over the word pieces that are no padding, then length one."""
        kept = node("Mul", [state, node("Unsqueeze", ["mask", "last_axis"], "wide_mask")], "kept")
        total = node("ReduceSum", [kept, "token_axis"], "total", keepdims=0)
        count = node("ReduceSum", ["mask", "token_axis"], "count", keepdims=1)
        node("LpNormalization", [node("Div", [total, count], "mean")], "embedding", axis=-1, p=2)

    for name, value in (("one", 1.0), ("half", 0.5), ("sqrt_two", np.sqrt(2.0)), ("masked_score", -1e9),
                        ("score_scale", np.sqrt(hidden // heads))):
        constant(name, np.float32(value))
    for name, value in (("last_axis", [-1]), ("token_axis", [1]), ("head_axes", [1, 2]),
                        ("merge_shape", [0, 0, hidden]), ("split_shape", [0, 0, heads, hidden // heads])):
        constant(name, np.array(value, dtype=np.int64))
    node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    penalty = node("Mul", [node("Sub", ["one", "mask"], "padding"), "masked_score"], "penalty")
    node("Unsqueeze", [penalty, "head_axes"], "additive_mask")
    state = embed()
    for index in range(config["num_hidden_layers"]):
        state = layer(state, index)
    pool(state)

    inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "tokens"])
              for name in ("input_ids", "attention_mask")]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", hidden])]
    graph = helper.make_graph(nodes, "sentence_encoder", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def open_session(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def read_texts(path, limit):
    texts = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                value = json.loads(line)
                texts.append(value if isinstance(value, str) else value["text"])
            if len(texts) == limit:
                break
    if not texts:
        raise SystemExit("expected at least one text, the file has none")
    return texts


def tokenize(folder, texts, max_tokens):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def padded_batches(token_ids, batch_size):
    """Batches of neighbours in length as (indices, ids, mask), so that padding is rare."""
    import numpy as np

    order = sorted(range(len(token_ids)), key=lambda index: len(token_ids[index]))
    for start in range(0, len(order), batch_size):
        chosen = order[start:start + batch_size]
        width = max(len(token_ids[index]) for index in chosen)
        ids = np.zeros((len(chosen), width), dtype=np.int32)
        mask = np.zeros((len(chosen), width), dtype=np.int32)
        for row, index in enumerate(chosen):
            ids[row, :len(token_ids[index])] = token_ids[index]
            mask[row, :len(token_ids[index])] = 1
        yield chosen, ids, mask


def tokens_per_second(session, token_ids, batch_size, repeats):
    """Real word pieces per second of the fastest of `repeats` passes; tokenising is not timed."""
    batches = list(padded_batches(token_ids, batch_size))
    session.run(None, {"input_ids": batches[-1][1], "attention_mask": batches[-1][2]})
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for _, ids, mask in batches:
            session.run(None, {"input_ids": ids, "attention_mask": mask})
        best = min(best, time.perf_counter() - start)
    return sum(map(len, token_ids)) / best


def gemm_gflops():
    """The best rate of numpy's float32 matrix product, in 10^9 operations per second."""
    import numpy as np

    generator = np.random.default_rng(0)
    left = generator.standard_normal((GEMM_SIZE, GEMM_SIZE), dtype=np.float32)
    right = generator.standard_normal((GEMM_SIZE, GEMM_SIZE), dtype=np.float32)
    best = float("inf")
    for _ in range(GEMM_REPEATS):
        start = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - start)
    return 2 * GEMM_SIZE**3 / best / 1e9


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder with config.json, tokenizer.json and model.safetensors")
    parser.add_argument("texts", type=Path, help="JSON lines: a string or an object with a `text`")
    parser.add_argument("--threads", type=int, default=1, help="threads of ONNX Runtime and of numpy (default 1)")
    parser.add_argument("--max-tokens", type=int, default=256, help="word pieces kept per text (default 256)")
    parser.add_argument("--limit", type=int, default=2000, help="texts read at most (default 2000)")
    parser.add_argument("--repeats", type=int, default=3, help="passes per batch size, the fastest counts (default 3)")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=BATCH_SIZES, help="batch sizes to try")
    return parser.parse_args()


def main():
    options = arguments()
    # numpy reads these when it is imported, which is why the imports of this file are late.
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    import numpy
    import onnx
    import onnxruntime

    # Once before and once after, because on a shared machine either moment may be a slow one.
    gemm_before = gemm_gflops()
    token_ids = tokenize(options.model, read_texts(options.texts, options.limit), options.max_tokens)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.onnx"
        onnx.save(build_graph(options.model), str(path))
        session = open_session(path, options.threads)
        rates = {size: tokens_per_second(session, token_ids, size, options.repeats) for size in options.batch_sizes}
    best = max(rates, key=rates.get)
    print(json.dumps({
        "tokens_per_second": round(rates[best]),
        "batch_size": best,
        "tokens_per_second_by_batch_size": {str(size): round(rate) for size, rate in rates.items()},
        "texts": len(token_ids),
        "tokens": sum(map(len, token_ids)),
        "max_tokens": options.max_tokens,
        "threads": options.threads,
        "gemm_gflops": round(max(gemm_before, gemm_gflops()), 1),
        "versions": {"numpy": numpy.__version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__},
    }, indent=2))


if __name__ == "__main__":
    main()
