"""Multiple choice without a language model: how often the option that a text supports most is the right one.

    CLEW=target/debug/clew python3 services/clew/demo/bench_choices.py quality.jsonl [SECONDS]

The file has a line of JSON for each document: `doc_id`, `document`, `questions` whose texts end in options
`(A) ... (B) ... (C) ... (D) ...`, and `answers` that begin with the right option's letter. Each option is asked with
its question of its own document; the one whose answer has the highest confidence is chosen. Stops after SECONDS (default 600) and tells what it has.
"""

import json
import math
import os
import re
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


def confidence(answer):
    judged = [step["confidence"] for step in answer["trace"] if step["step"] == "judged"]
    return max(judged, default=0.0)


def ask(document, text, strategy):
    return clew("ask", "--corpus", "choices", "--strategy", strategy, "--document", document, text)


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
        server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()
            clew("ingest", "--corpus", "choices", texts)
            while clew("status", "--corpus", "choices")["unstructured_documents"]:
                time.sleep(0.2)
            right = dict.fromkeys(STRATEGIES, 0)
            asked = 0
            # One question of each document in turn, so that a part stands for the whole.
            most = max(len(document["questions"]) for document in documents)
            turns = [(d, i) for i in range(most) for d in documents if i < len(d["questions"])]
            for document, number in turns:
                if time.monotonic() > until:
                    break
                stem, options = parts_of(document["questions"][number])
                letter = re.search(r"[A-D]", document["answers"][number]).group()
                asked += 1
                for strategy in STRATEGIES:
                    of_option = {
                        name: confidence(ask(document["doc_id"], f"{stem} {option}", strategy))
                        for name, option in options.items()
                    }
                    right[strategy] += max(of_option, key=of_option.get) == letter
            for strategy, count in right.items():
                share = count / max(asked, 1)
                error = math.sqrt(share * (1 - share) / max(asked, 1))
                print(f"{strategy}: {100 * share:.1f} ± {100 * error:.1f} % of {asked} (chance 25 %)")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
