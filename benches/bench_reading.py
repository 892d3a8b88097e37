"""What walking a tree saves: how much of a text each question has read, and what it costs.

    CLEW=target/debug/clew python3 benches/bench_reading.py quality.jsonl [STRATEGY...]

The file has a line of JSON for each document: `doc_id`, `document`, and `questions`, each a text. Documents go
into a corpus in a temporary directory; each question is asked of its own document.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

STRATEGIES = ["memwalker", "memwalker-best", "memwalker-beam", "direct"]


def clew(data, *arguments):
    command = [os.environ["CLEW"], *arguments, "--data-dir", data, "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def asked_of(question):
    """The question without its options, which a search would look for."""
    return question.split("\n")[0].split("(A)")[0].strip()


def main():
    path, strategies = sys.argv[1], sys.argv[2:] or STRATEGIES
    with open(path, encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        texts = os.path.join(folder, "texts.jsonl")
        with open(texts, "w", encoding="utf-8") as out:
            for document in documents:
                out.write(json.dumps({"id": document["doc_id"], "text": document["document"]}) + "\n")
        data = os.path.join(folder, "data")
        clew(data, "ingest", "--corpus", "reading", texts)
        for strategy in strategies:
            shares, tokens, calls, answered, asked = [], [], [], 0, 0
            for document in documents:
                whole = len(document["document"].encode())
                for question in document["questions"]:
                    ask = ["ask", "--corpus", "reading", "--strategy", strategy]
                    ask += ["--document", document["doc_id"], asked_of(question)]
                    answer = clew(data, *ask)
                    asked += 1
                    answered += answer["outcome"] == "answered"
                    tokens.append(answer["cost"]["embedded_tokens"])
                    calls.append(answer["cost"]["model_calls"])
                    for step in answer["trace"]:
                        if step["step"] == "walked":
                            shares.append(step["bytes_read"] / step["bytes_total"])
                        elif step["step"] == "read" and not strategy.startswith("memwalker"):
                            read = sum(place["end"] - place["start"] for place in step["places"])
                            shares.append(read / whole)
            print(
                f"{strategy}: {asked} questions, {answered} answered; read "
                f"{100 * statistics.mean(shares):.1f} % of the text (median "
                f"{100 * statistics.median(shares):.1f} %); {statistics.mean(calls):.1f} calls of models, "
                f"{statistics.mean(tokens):.0f} tokens embedded a question",
                flush=True,
            )


if __name__ == "__main__":
    main()
