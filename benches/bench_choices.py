"""Multiple choice without a language model: how often the option that a text supports most is the right one.

    CLEW=target/debug/clew python3 benches/bench_choices.py quality.jsonl [SECONDS]

The file has a line of JSON for each document: `doc_id`, `document`, `questions` whose texts end in options
`(A) ... (B) ... (C) ... (D) ...`, and `answers` that begin with the right option's letter. Each option is asked with
its question of its own document; the one whose answer has the highest confidence is chosen. Each strategy is set
beside plain retrieval that reads as many bytes for the same option. Stops after SECONDS (default 600) and tells what
it has.
"""

import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

STRATEGIES = ["direct", "memwalker-best", "qrmem-expand"]
ADDRESS = "127.0.0.1:7978"


def clew(*arguments):
    command = [os.environ["CLEW"], *arguments, "--endpoint", f"http://{ADDRESS}", "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def parts_of(question):
    """The question and its options by letter."""
    stem, *options = re.split(r"\(([A-D])\)", question)
    return stem.strip(), dict(zip(options[::2], (option.strip() for option in options[1::2])))


class Asked:
    """An option that was asked about."""

    def __init__(self, document, text, strategy, *arguments):
        ask = ["ask", "--corpus", "choices", "--strategy", strategy, "--document", document]
        trace = clew(*ask, *arguments, text)["trace"]
        judged = [step["confidence"] for step in trace if step["step"] == "judged"]
        self.confidence = max(judged, default=0.0)
        places = {
            (place["document_id"], place["start"], place["end"])
            for step in trace
            if step["step"] == "read"
            for place in step["places"]
        }
        walked = sum(step["bytes_read"] for step in trace if step["step"] == "walked")
        self.read = walked or sum(end - start for _, start, end in places)
        self.passages = len(places)


class Tally:
    """How often one way of asking was right."""

    def __init__(self):
        self.right = []
        self.read = []

    def add(self, asked, letter):
        self.right.append(max(asked, key=lambda name: asked[name].confidence) == letter)
        self.read += [option.read for option in asked.values()]

    def __str__(self):
        share = statistics.mean(self.right)
        error = math.sqrt(share * (1 - share) / len(self.right))
        return (
            f"{100 * share:.1f} ± {100 * error:.1f} % of {len(self.right)} (chance 25 %), "
            f"{statistics.mean(self.read):.0f} bytes read for an option"
        )


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    until = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 600)
    with tempfile.TemporaryDirectory() as folder:
        texts = os.path.join(folder, "texts.jsonl")
        with open(texts, "w", encoding="utf-8") as out:
            for document in documents:
                out.write(json.dumps({"id": document["doc_id"], "text": document["document"]}) + "\n")
        serve = [os.environ["CLEW"], "serve", "--listen", ADDRESS, "--data-dir", folder + "/data"]
        quiet = {**os.environ, "CLEW_LOG": "error"}
        server = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, env=quiet)
        try:
            while not server.stderr.readline().startswith("listening on"):
                pass
            clew("ingest", "--corpus", "choices", texts)
            while clew("status", "--corpus", "choices")["unstructured_documents"]:
                time.sleep(0.2)
            compare(documents, until)
        finally:
            server.terminate()
            server.wait()


def compare(documents, until):
    tallies = {}
    # One question of each document in turn, so that a part stands for the whole.
    most = max(len(document["questions"]) for document in documents)
    turns = [(d, i) for i in range(most) for d in documents if i < len(d["questions"])]
    for document, number in turns:
        if time.monotonic() > until:
            break
        stem, options = parts_of(document["questions"][number])
        letter = re.search(r"[A-D]", document["answers"][number]).group()
        plain = None
        for strategy in STRATEGIES:
            texts = {name: f"{stem} {option}" for name, option in options.items()}
            asked = {n: Asked(document["doc_id"], text, strategy) for n, text in texts.items()}
            tallies.setdefault(strategy, Tally()).add(asked, letter)
            if plain is None:
                plain = asked
                continue
            beside = {}
            for name, text in texts.items():
                passage = plain[name].read / max(plain[name].passages, 1)
                k = max(round(asked[name].read / max(passage, 1)), 1)
                beside[name] = Asked(document["doc_id"], text, "direct", "-k", str(k))
            tallies.setdefault(f"direct, as much as {strategy}", Tally()).add(beside, letter)
    for way, tally in tallies.items():
        print(f"{way}: {tally}")


if __name__ == "__main__":
    main()
