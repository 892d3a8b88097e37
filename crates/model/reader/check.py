"""Trains on a tenth of the data from nothing and compares with `reference.json`: `check.py DATA --base FOLDER`.

Ends with 1 if the quality is further from the reference than its bound, which is there because
processors round differently.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data")
    parser.add_argument("--base", type=Path, required=True, help="folder of the base model")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    reference = json.loads((HERE / "reference.json").read_text())
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, HERE / "train.py", args.data, "--base", args.base, "--out", out]
        command += ["--threads", str(args.threads), "--every", str(10**9)]
        for name, value in reference["settings"].items():
            command += [f"--{name}", str(value)]
        subprocess.run(command, check=True)
        log = [json.loads(line) for line in (Path(out) / "log.jsonl").read_text().splitlines()]
    quality = [entry["dev"] for entry in log if "dev" in entry][-1]
    failed = False
    for name, wanted in reference["quality"].items():
        off = abs(quality[name] - wanted)
        failed |= off > reference["bound"]
        print(f"{name}: {quality[name]} (reference {wanted}, off by {off:.2f} of at most {reference['bound']})")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
