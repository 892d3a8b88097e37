"""Makes the adapter that Clew ships out of trained weights: `export.py RUN DATA --base FOLDER --out FILE`.

An adapter holds what differs from the base: matrices as their difference in 8 bits with a scale for
each row, vectors and heads as they are. Its metadata say which base it belongs to, how its
probabilities are calibrated, what it was trained on and how well it reads.
"""

import argparse
import json
from pathlib import Path

import blake3
import numpy
import torch
from safetensors.torch import load_file, save_file

import examples
import scoring
from network import EMBEDDINGS, Reader

FORMAT = "clew-reader-1"


def fingerprint(base):
    """Returns the hash by which the Rust side knows the base."""
    hasher = blake3.blake3()
    for file in ("tokenizer.json", "model.safetensors"):
        hasher.update((Path(base) / file).read_bytes())
    return hasher.hexdigest()


def packed(model):
    """Returns the tensors of the adapter."""
    tensors = {}
    for name, base in model.base.items():
        if name.startswith(EMBEDDINGS):
            continue
        value = model.parameter(name).detach()
        if value.dim() == 1:
            tensors[name] = value.clone()
            continue
        difference = value - base
        scale = (difference.abs().amax(1) / 127).clamp_min(1e-12)
        tensors[name] = (difference / scale[:, None]).round().to(torch.int8)
        tensors[f"{name}.scale"] = scale
    for head in ("span", "verdict"):
        layer = getattr(model, head)
        tensors[f"{head}.weight"], tensors[f"{head}.bias"] = layer.weight.detach(), layer.bias.detach()
    return {name: value.contiguous() for name, value in tensors.items()}


def unpacked(model, tensors):
    """Gives a model the weights of an adapter, so that what is measured is what is shipped."""
    with torch.no_grad():
        for name, base in model.base.items():
            if name.startswith(EMBEDDINGS):
                continue
            value = tensors[name]
            if value.dtype == torch.int8:
                value = base + value.float() * tensors[f"{name}.scale"][:, None]
            model.parameter(name).copy_(value)
        for head in ("span", "verdict"):
            getattr(model, head).weight.copy_(tensors[f"{head}.weight"])
            getattr(model, head).bias.copy_(tensors[f"{head}.bias"])


def with_neighbours(rows):
    """Returns the rows, and each question once more with another passage of its article, which does
    not answer it: what a search finds for a question is mostly of that kind."""
    passages = {}
    for row in rows:
        passages.setdefault(row["title"], {})[row["context"]] = None
    mixed = []
    for number, row in enumerate(rows):
        mixed.append(row)
        others = [other for other in passages[row["title"]] if other != row["context"]]
        other = others[number % len(others)] if others else ""
        if other and not any(given["text"].lower() in other.lower() for given in row["answers"]):
            mixed.append({**row, "context": other, "answers": []})
    return mixed


def features(readings):
    """Returns margin, verdict and 1 of each reading, and whether it has an answer."""
    told = numpy.array([[read.margin, read.verdict, 1.0] for read in readings])
    return told, numpy.array([float(bool(read.references)) for read in readings])


def probabilities(told, weights):
    """Returns the probability that a passage answers, of each reading."""
    return 1 / (1 + numpy.exp(-told @ weights))


def calibrated(readings):
    """Returns a, b and c of the probability `sigmoid(a·margin + b·verdict + c)` that a passage
    answers, by logistic regression (Newton's method) on what was read."""
    told, answered = features(readings)
    weights = numpy.zeros(3)
    for _ in range(50):
        chances = probabilities(told, weights)
        # A little weight decay keeps the two features, which say nearly the same, apart.
        slope = told.T @ (answered - chances) - 0.1 * weights
        bend = (told * (chances * (1 - chances))[:, None]).T @ told + 0.1 * numpy.eye(3)
        weights = weights + numpy.linalg.solve(bend, slope)
    return [round(float(weight), 4) for weight in weights]


def calibration_error(readings, weights, bins=10):
    """Returns the mean distance between probabilities and what they promise, over equal bins."""
    told, answered = features(readings)
    chances = probabilities(told, numpy.array(weights))
    places = numpy.minimum((chances * bins).astype(int), bins - 1)
    return sum(
        abs(chances[places == place].mean() - answered[places == place].mean()) * (places == place).mean()
        for place in range(bins) if (places == place).any()
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder that train.py wrote")
    parser.add_argument("data", type=Path, help="folder of the data")
    parser.add_argument("--base", type=Path, required=True, help="folder of the base model")
    parser.add_argument("--out", type=Path, required=True, help="file of the adapter")
    parser.add_argument("--questions", type=int, default=1500, help="questions of each development file")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    log = [json.loads(line) for line in (args.run / "log.jsonl").read_text().splitlines()]
    begun = next(entry for entry in log if "settings" in entry)
    model = Reader(args.base)
    model.load_state_dict(load_file(args.run / "reader.safetensors"))
    tensors = packed(model)
    unpacked(model, tensors)

    encoder, read = examples.Encoder(args.base), {}
    for name in ("squad2_dev", "squad11_dev"):
        rows = scoring.sample(args.data / "dev" / f"{name}.jsonl.gz", args.questions, 1)
        read[name] = scoring.Quality(scoring.read_passages(model, encoder, rows))
        read[f"{name}_with_neighbours"] = scoring.Quality(scoring.read_passages(model, encoder, with_neighbours(rows)))
    # Every other reading is for calibration, and the others tell how good that is.
    told = [reading for name, of in read.items() if name.endswith("neighbours") for reading in of.readings]
    weights = calibrated(told[::2])
    quality = {name: of.summary() for name, of in read.items()}
    quality["calibration_error"] = round(float(calibration_error(told[1::2], weights)), 4)
    metadata = {
        "format": FORMAT,
        "base": Path(args.base).resolve().name,
        "base_blake3": fingerprint(args.base),
        "calibration": json.dumps(weights),
        "window": str(examples.WINDOW),
        "question": str(examples.QUESTION),
        "heading": str(examples.HEADING),
        "stride": str(examples.STRIDE),
        "longest_answer": str(examples.LONGEST_ANSWER),
        "data": json.dumps([
            {"name": name, "licence": examples.SOURCES[name].licence, "examples": count}
            for name, count in begun["by_file"].items()
        ]),
        "quality": json.dumps(quality),
        "trained": json.dumps(begun["settings"]),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, args.out, metadata)
    print(json.dumps({"bytes": args.out.stat().st_size, "calibration": weights, "quality": quality}))


if __name__ == "__main__":
    main()
