"""Sets search of Clew beside what a user could pick instead: the same chunks, vectors, questions and cores.

    python3 -m venv .cache/peers
    .cache/peers/bin/pip install -r benches/peers/requirements.txt
    .cache/peers/bin/python benches/search_peers.py --clew target/release/clew --data-dir .clew --corpus NAME

`make_corpus.py` makes a corpus of any size for it. No other process may have the data directory open. It runs on
Linux only, because it reads /proc. Each engine whose packages are missing is left out with a line that says how to
install them, and an engine that fails does not stop the others.

The chunks and their vectors are exported from the corpus. Questions are nine words in a row from random chunks, and
a Clew that only embeds gives their vectors. One engine after the other gets the chunks in one process, and is
searched from another that opened what the first one left on the disk. Clew is searched over gRPC, and its figures
include embedding each question: the table has the server's own times of that beside them.

- p50, p99: one client, after other questions warmed the engine. Every question is asked once.
- searches/s: of clients that each wait for one answer before they ask again. They are threads in the process of an
  engine, and calls in flight to Clew.
- recall@10: against the exact product over all vectors, of dense searches.
- CPU: processor time of a search with one client. For Clew it is that of the server, without the client's.
- memory: of the process that searches, after all searches, with Python and the engine's packages in it. For Clew it is
  that of the server, with its embedding model in it.
- ingest: seconds in the engine's calls until given chunks and vectors are indexed and on the disk. Clew embeds what it
  ingests, which takes nearly all of the time, so it has no figure: `clew bench ingest` measures that.
- filters: dense searches of the chunks whose documents have an attribute, where attributes of the corpus keep about
  1 %, 10 % or 50 % of the chunks.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# `peers.prepare` and `peers.server` are imported where they are used, so that their packages take no memory of a
# process that searches an engine.
from peers import measure
from peers.engines import ENGINES, K

NEEDED = ["numpy", "pyarrow", "grpc", "grpc_tools"]
INSTALL = f"{sys.executable} -m pip install"
WARM_QUESTIONS = 50
CLIENTS = [1, 16]
# Longest time of one phase of one engine.
PATIENCE = 4 * 3600


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clew", default=os.environ.get("CLEW"), help="the program (default: $CLEW)")
    parser.add_argument("--data-dir", help="its data directory")
    parser.add_argument("--corpus", help="a corpus in it")
    parser.add_argument("--model", help="folder of the corpus' embedding model (default: as for the other benches)")
    parser.add_argument("--peers", default=",".join(ENGINES), help="engines beside Clew (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=200, help="number of questions (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="another seed gives other questions (default: 7)")
    parser.add_argument("--cores", help="cores of all processes, such as 0,1 (default: all that are allowed)")
    parser.add_argument("--json", help="file for the figures, for machines")
    parser.add_argument("--keep", help="folder for what is exported, so that a later run of the same corpus skips it")
    # What a process of one engine is told.
    for name in ("only", "phase", "folder", "address", "pid"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return parser.parse_args()


def ingest(name, folder, prepared):
    """Has an engine read the chunks, and tells what that took."""
    from peers import prepare

    kind = ENGINES[name]
    chunks = prepare.Chunks(folder / "export/chunks.parquet")
    engine = kind(folder / name, chunks.dimension, prepared["filters"])
    took = 0
    for batch in chunks.for_engine(prepared["filters"], kind.batch):
        began = time.perf_counter()
        engine.add(*batch)
        took += time.perf_counter() - began
    began = time.perf_counter()
    engine.finish()
    took += time.perf_counter() - began
    return {"ingest_s": round(took, 2), "ingest_peak_mib": measure.memory(os.getpid())["peak_mib"]}


def search(name, folder, prepared, options):
    """Measures an engine that another process filled, or Clew at an address."""
    import numpy

    if name == "clew":
        from peers import server

        server.stubs(folder / "stubs")
        engine = server.Clew(options.address, prepared["corpus"], prepared["filters"], K)
        pid = int(options.pid)
        measure.settle(pid)
    else:
        engine = ENGINES[name](folder / name, prepared["dimension"], prepared["filters"])
        engine.open()
        pid = os.getpid()
    questions = measure.Questions(prepared, numpy.load(folder / "questions.npy"))
    return measure.everything(engine, questions, prepared["filters"], CLIENTS, K, pid)


def phase(options):
    """The work of a process that has one engine only."""
    folder = Path(options.folder)
    prepared = json.loads((folder / "prepared.json").read_text())
    if options.phase == "ingest":
        result = ingest(options.only, folder, prepared)
    else:
        result = search(options.only, folder, prepared, options)
    (folder / f"{options.only}.{options.phase}.json").write_text(json.dumps(result))


def in_process_of_its_own(name, phase, folder, *more):
    """Figures of a phase of an engine. A failure is an exception with the last line of its log."""
    command = [sys.executable, __file__, "--only", name, "--phase", phase, "--folder", str(folder), *more]
    log = folder / f"{name}.{phase}.log"
    with open(log, "w") as out:
        ran = subprocess.run(command, stdout=out, stderr=out, timeout=PATIENCE)
    if ran.returncode != 0:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise RuntimeError(f"{phase} failed with {ran.returncode}: {lines[-1] if lines else 'no message'}")
    return json.loads((folder / f"{name}.{phase}.json").read_text())


def described(kind):
    """What a user has to know beside the figures."""
    filters = "yes" if kind.has_filters and "dense" in kind.modes else "no"
    return {
        "settings": kind.settings,
        "synced": kind.synced,
        "filters": filters,
        "deletes": kind.deletes,
        "lacks": kind.lacks,
    }


def measure_peer(name, folder):
    kind = ENGINES[name]
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).mkdir()
    try:
        ingested = in_process_of_its_own(name, "ingest", folder)
        disk = measure.disk_mib(folder / name)
        searched = in_process_of_its_own(name, "search", folder)
    finally:
        shutil.rmtree(folder / name)
    version = ", ".join(importlib.metadata.version(package.partition("[")[0]) for package in kind.packages)
    return {"version": version, **described(kind), **ingested, "disk_mib": disk, **searched}


def measure_clew(folder, options):
    from peers import server

    version = subprocess.run([options.clew, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    log = folder / "clew.log"
    with server.Server(options.clew, log, options.model, "--data-dir", options.data_dir) as running:
        more = ["--address", running.address, "--pid", str(running.process.pid)]
        searched = in_process_of_its_own("clew", "search", folder, *more)
    stored = Path(options.data_dir) / "corpora" / options.corpus
    return {
        "version": version.stdout.split()[-1],
        **described(server.Clew),
        "ingest_s": None,
        # A bucket's size is not known here.
        "disk_mib": measure.disk_mib(stored) if stored.exists() else None,
        **searched,
    }


def prepared(folder, options):
    """Exports the chunks, and makes questions, filters and exact answers."""
    import numpy
    from peers import prepare, server

    if not (folder / "export/chunks.parquet").exists():
        server.export(options.clew, options.model, options.data_dir, options.corpus, folder / "export")
    chunks = prepare.Chunks(folder / "export/chunks.parquet")
    filters = prepare.filters(chunks)
    texts = prepare.questions(chunks, WARM_QUESTIONS + options.questions, options.seed)
    server.stubs(folder / "stubs")
    vectors = server.embed(options.clew, options.model, folder, texts)
    if vectors.shape[1] != chunks.dimension:
        raise RuntimeError(
            f"the model gives vectors of {vectors.shape[1]} numbers, and the corpus has {chunks.dimension}; "
            "name the corpus' model with --model"
        )
    result = {
        "corpus": options.corpus,
        "chunks": chunks.count,
        "dimension": chunks.dimension,
        "filters": filters,
        "questions": texts,
        "warm": WARM_QUESTIONS,
        "truth": prepare.truth(chunks, vectors[WARM_QUESTIONS:], filters, K),
    }
    (folder / "prepared.json").write_text(json.dumps(result))
    numpy.save(folder / "questions.npy", vectors)
    return result


def not_installed(name):
    """How to install what an engine needs, or nothing if it is there."""
    for package in ENGINES[name].packages:
        try:
            importlib.metadata.version(package.partition("[")[0])
        except importlib.metadata.PackageNotFoundError:
            packages = " ".join(f"'{package}'" for package in ENGINES[name].packages)
            return f"not installed; run: {INSTALL} {packages}"
    return None


def table(head, rows):
    """A table in Markdown, with columns as wide as what is in them."""
    rows = [head, *([str("" if cell is None else cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print("\n".join(lines) + "\n")


def report(result):
    print(
        f"\n{result['chunks']:,} chunks of {result['dimension']} dimensions, {result['questions']} questions, "
        f"the best {K} of each; cores {', '.join(map(str, result['cores']))} of {result['processor']}\n"
    )
    engines = result["engines"]
    head = ["engine", "mode", "p50 ms", "p99 ms", "of it embedding ms", "CPU ms"]
    head += [f"searches/s, {count} clients" if count > 1 else "searches/s, 1 client" for count in CLIENTS]
    rows = []
    for name, figures in engines.items():
        for mode, of in figures["modes"].items():
            throughput = [of["searches_per_s"][str(count)] for count in CLIENTS]
            row = [name, mode, of["p50_ms"], of["p99_ms"], of.get("embedding_p50_ms", 0), of["cpu_ms"]]
            rows.append([*row, *throughput, of.get("recall")])
    table([*head, "recall@10"], rows)
    filters = [one for one in result["filters"] if any(one["name"] in of["filtered"] for of in engines.values())]
    if filters:
        rows = []
        for one in filters:
            for name, figures in engines.items():
                if one["name"] in figures["filtered"]:
                    of = figures["filtered"][one["name"]]
                    share = f"{100 * one['share']:.1f} %"
                    rows.append([one["name"], share, name, of["p50_ms"], of["p99_ms"], of["cpu_ms"], of["recall"]])
        table(["filter", "keeps", "engine", "p50 ms", "p99 ms", "CPU ms", "recall@10"], rows)
    else:
        print("No attribute keeps about 1 %, 10 % or 50 % of the chunks, so no filters were measured.\n")
    rows = []
    for name, of in engines.items():
        memory = [of["resident_mib"], of["peak_mib"], of["anonymous_mib"]]
        rows.append([name, of["version"], *memory, of["disk_mib"], of["ingest_s"], of.get("ingest_peak_mib")])
    head = ["engine", "version", "memory MiB", "at most", "without files", "disk MiB", "ingest s", "ingest at most MiB"]
    table(head, rows)
    rows = []
    for name, of in engines.items():
        rows.append([name, of["settings"], of["synced"], of["filters"], of["deletes"], of["lacks"]])
    head = ["engine", "settings", "added is synced", "dense filters", "deletes are visible", "what else it lacks"]
    table(head, rows)
    for name, reason in result["left_out"].items():
        print(f"{name}: {reason}")


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def run(folder, options):
    made = prepared(folder, options)
    engines, left_out = {}, {}
    names = ["clew", *filter(None, options.peers.split(","))]
    for name in names:
        reason = None if name == "clew" else not_installed(name)
        if reason is None:
            print(f"measuring {name}", file=sys.stderr, flush=True)
            try:
                engines[name] = measure_clew(folder, options) if name == "clew" else measure_peer(name, folder)
            except (RuntimeError, subprocess.SubprocessError) as failure:
                reason = str(failure)
        if reason:
            left_out[name] = reason
            print(f"{name}: {reason}", file=sys.stderr, flush=True)
    return {
        "chunks": made["chunks"],
        "dimension": made["dimension"],
        "questions": options.questions,
        "k": K,
        "filters": made["filters"],
        "cores": sorted(os.sched_getaffinity(0)),
        "processor": processor(),
        "engines": engines,
        "left_out": left_out,
    }


def main():
    options = arguments()
    if options.only:
        return phase(options)
    for name in ("clew", "data_dir", "corpus"):
        if not getattr(options, name):
            sys.exit(f"--{name.replace('_', '-')} is missing")
    missing = [module for module in NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        sys.exit(f"{', '.join(missing)}: not installed; run: {INSTALL} -r benches/peers/requirements.txt")
    unknown = set(filter(None, options.peers.split(","))) - set(ENGINES)
    if unknown:
        sys.exit(f"unknown engines: {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
    if options.cores:
        # What this process starts has the same cores.
        os.sched_setaffinity(0, map(int, options.cores.split(",")))
    folder = Path(options.keep or tempfile.mkdtemp(prefix="clew-peers-")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        result = run(folder, options)
    except RuntimeError as failure:
        sys.exit(str(failure))
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    report(result)
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
