"""Trains the reader: `train.py DATA --base FOLDER --out FOLDER`.

Goes on from the last checkpoint in the output folder, if there is one of the same settings. The
same settings on the same machine give the same weights, bit by bit.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn.functional import binary_cross_entropy_with_logits

import examples
import scoring
from network import Reader, tensors

HEADS_RATE = 4.0
WARM_UP = 0.06
CLIP = 1.0
VERDICT_WEIGHTS = (0.5, 0.25)


def loss_of(model, batch):
    """Returns the loss of a batch: that of the places of answers, and of both verdicts."""
    ids, mask, readable = tensors(batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        starts, ends, verdict = model(ids, mask, readable)
    spans = [row for row, window in enumerate(batch) if window.answers or window.answered == 0.0]
    loss = torch.zeros(())
    if spans:
        wanted = torch.zeros(2, len(spans), ids.shape[1], dtype=torch.bool)
        for row, window in enumerate(batch[at] for at in spans):
            for start, end in window.answers or [(0, 0)]:
                wanted[0, row, start] = True
                wanted[1, row, end] = True
        # Each of several answers is right, so their probabilities are added.
        lowest = torch.finfo(torch.float32).min
        for logits, right in zip((starts[spans], ends[spans]), wanted):
            chances = logits.masked_fill(~right, lowest).logsumexp(1) - logits.logsumexp(1)
            loss = loss - chances.mean() / 2
    for column, weight in enumerate(VERDICT_WEIGHTS):
        told = [(window.answered, window.relevant)[column] for window in batch]
        rows = [row for row, value in enumerate(told) if value is not None]
        if rows:
            wanted = torch.tensor([told[row] for row in rows])
            loss = loss + weight * binary_cross_entropy_with_logits(verdict[rows, column], wanted)
    return loss


def rate_at(step, steps):
    """Returns the share of the full rate: it grows at first, then falls to nothing."""
    warm = max(round(WARM_UP * steps), 1)
    return min((step + 1) / warm, (steps - step) / max(steps - warm, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data")
    parser.add_argument("--base", type=Path, required=True, help="folder of the base model")
    parser.add_argument("--out", type=Path, required=True, help="folder for weights and log")
    parser.add_argument("--tokens", type=float, default=7.8e6, help="tokens to train on")
    parser.add_argument("--batch", type=int, default=5000, help="tokens of a step")
    parser.add_argument("--rate", type=float, default=2.5e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", default="", choices=["", examples.RULES, *examples.PARTS],
                        help="part of the data to leave out, to measure what it brings")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dev", type=int, default=400, help="questions of each evaluation; 0 means none")
    parser.add_argument("--every", type=int, default=300, help="steps between checkpoints")
    args = parser.parse_args()
    settings = {name: getattr(args, name) for name in ("tokens", "batch", "rate", "seed")}
    if args.without:
        settings["without"] = args.without

    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    log_file = (args.out / "log.jsonl").open("a")

    def log(**entry):
        print(json.dumps(entry), flush=True)
        log_file.write(json.dumps(entry) + "\n")
        log_file.flush()

    model = Reader(args.base)
    windows, counts = examples.training_windows(args.data, args.base, args.seed, args.without)
    plan, planned, part = [], 0, 0
    while planned < args.tokens:
        # Epochs differ in the order only.
        for batch in examples.batches(windows, args.batch, args.seed + part):
            if planned >= args.tokens:
                break
            plan.append(batch)
            planned += sum(len(window.ids) for window in batch)
        part += 1
    heads = model.heads_parameters()
    optimizer = torch.optim.AdamW(
        [{"params": list(model.trained.parameters()), "scale": 1.0}, {"params": heads, "scale": HEADS_RATE}],
        lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01,
    )
    step, checkpoint = 0, args.out / "state.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        if state["settings"] == settings:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            step = state["step"]
    log(settings=settings, windows=len(windows), by_file=counts, tokens=planned, steps=len(plan), from_step=step)

    parameters = [*model.trained.parameters(), *heads]
    begun, read, total = time.monotonic(), 0, 0.0
    model.train()
    while step < len(plan):
        for group in optimizer.param_groups:
            group["lr"] = args.rate * group["scale"] * rate_at(step, len(plan))
        loss = loss_of(model, plan[step])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        total += loss.item()
        read += sum(len(window.ids) for window in plan[step])
        step += 1
        if step % 50 == 0:
            log(step=step, loss=round(total / 50, 4), tokens_per_second=round(read / (time.monotonic() - begun)))
            total = 0.0
        if step % args.every == 0 or step == len(plan):
            state = {"settings": settings, "step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
            save_file({name: value.contiguous() for name, value in model.state_dict().items()}, args.out / "reader.safetensors")
            if args.dev:
                quality = scoring.evaluate(model, args.base, args.data / "dev" / "squad2_dev.jsonl.gz", args.dev, args.seed)
                log(step=step, dev=quality.summary())
                model.train()


if __name__ == "__main__":
    main()
