"""Scores a reader on questions with given passages."""

import re
import string
from collections import Counter
from dataclasses import dataclass
from random import Random

import torch

import examples
from network import tensors

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text):
    """Returns the words of an answer without case, articles and punctuation (SQuAD)."""
    return ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split()


def overlap(answer, references):
    """Returns exact match and F1 of an answer beside the best of its references."""
    exact, best = 0.0, 0.0
    got = normalised(answer)
    for reference in references:
        wanted = normalised(reference)
        common = sum((Counter(got) & Counter(wanted)).values())
        exact = max(exact, float(got == wanted))
        if common:
            best = max(best, 2 * common / (len(got) + len(wanted)))
    return exact, best


@dataclass
class Read:
    """What was read of one question."""

    margin: float
    verdict: float
    relevance: float
    answer: str
    references: list
    exact: float
    f1: float


@dataclass
class Quality:
    """Readings of many questions."""

    readings: list

    def summary(self):
        """Returns F1 with abstention at the best margin, F1 and exact match where there is an
        answer, and the area under the curve of answered and unanswerable questions, in percent."""
        answerable = [read for read in self.readings if read.references]
        empty = [read for read in self.readings if not read.references]
        result = {"questions": len(self.readings)}
        if answerable:
            result["answerable_f1"] = percent(mean(read.f1 for read in answerable))
            result["answerable_exact"] = percent(mean(read.exact for read in answerable))
        if answerable and empty:
            result["auc"] = percent(area([score(r) for r in answerable], [score(r) for r in empty]))
            best, at = self.best_f1()
            result["f1_with_abstention"], result["at"] = percent(best), round(at, 2)
        return result

    def best_f1(self):
        """Returns the best F1 with abstention, and the score from which on it answers."""
        ordered = sorted(self.readings, key=score, reverse=True)
        gained = sum(1.0 for read in ordered if not read.references)
        best, at = gained, float("inf")
        for read in ordered:
            gained += read.f1 if read.references else -1.0
            if gained > best:
                best, at = gained, score(read)
        return best / len(ordered), at


def score(read):
    return read.margin + read.verdict


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def percent(share):
    return round(100 * share, 2)


def area(higher, lower):
    """Returns the chance that a value of `higher` is above one of `lower`."""
    ordered = sorted([(value, 1) for value in higher] + [(value, 0) for value in lower])
    below, above = 0, 0
    for _, is_higher in ordered:
        if is_higher:
            above += below
        else:
            below += 1
    return above / (len(higher) * len(lower))


@torch.no_grad()
def read_passages(model, encoder, rows, tokens=16384):
    """Returns a `Read` for each of `rows`, objects of a data file, in order."""
    model.eval()
    all_windows = []
    for row, raw in enumerate(rows):
        heading = examples.clean_title(raw.get("title") or "")
        for window in encoder.windows(raw["question"], heading, raw["context"]):
            all_windows.append((row, window))
    best = [None] * len(rows)
    order = sorted(range(len(all_windows)), key=lambda at: len(all_windows[at][1].ids))
    while order:
        batch = []
        while order and (len(batch) + 1) * len(all_windows[order[0]][1].ids) <= max(tokens, len(all_windows[order[0]][1].ids)):
            batch.append(all_windows[order.pop(0)])
        for (row, window), (margin, span, verdict) in zip(batch, read_windows(model, [w for _, w in batch])):
            if best[row] is None or margin > best[row][0]:
                start, end = (window.offsets[span[0]][0], window.offsets[span[1]][1]) if span else (0, 0)
                best[row] = (margin, rows[row]["context"][start:end], verdict)
    results = []
    for raw, (margin, answer, verdict) in zip(rows, best):
        references = [given["text"] for given in raw["answers"] or []]
        exact, f1 = overlap(answer, references)
        results.append(Read(margin, verdict[0], verdict[1], answer, references, exact, f1))
    return results


def read_windows(model, windows):
    """Returns margin, best span in passage tokens and verdicts of each window."""
    ids, mask, readable = tensors(windows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        starts, ends, verdicts = model(ids, mask, readable)
    for row, window in enumerate(windows):
        start, end = starts[row, window.begin:window.end], ends[row, window.begin:window.end]
        null = (starts[row, 0] + ends[row, 0]).item()
        if not len(start):
            yield -100.0, None, verdicts[row].tolist()
            continue
        sums = start[:, None] + end[None, :]
        allowed = torch.ones_like(sums, dtype=torch.bool).triu().tril(examples.LONGEST_ANSWER - 1)
        at = sums.masked_fill(~allowed, -1e9).argmax().item()
        span = divmod(at, len(end))
        yield sums[span].item() - null, span, verdicts[row].tolist()


def sample(file, questions, seed):
    """Returns a random sample of the rows of a file."""
    rows = examples.read(file)
    return Random(seed).sample(rows, questions) if questions < len(rows) else rows


def evaluate(model, base, file, questions, seed):
    """Returns the quality on a random sample of a file."""
    return Quality(read_passages(model, examples.Encoder(base), sample(file, questions, seed)))
