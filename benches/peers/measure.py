"""How `search_peers.py` measures an engine: latency, searches per second, recall, memory."""

import itertools
import os
import statistics
import threading
import time
from pathlib import Path

# Seconds for which clients at the same time search.
CLIENTS_SECONDS = 5
# Longest time of one client for a pass over the questions in one mode. It may end a pass.
LATENCY_SECONDS = 60
# Seconds in a row in which a server must be quiet, which is more than it waits between two looks at its tables, and
# the longest time to wait for that.
QUIET_SECONDS = 12
SETTLE_SECONDS = 1800


def tree(pid):
    """A process and those below it."""
    pids = [pid]
    for parent in pids:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            pids += map(int, task.read_text().split())
    return pids


def memory(pid):
    """Memory of a process and those below it in MiB: now, at most so far, and now without pages of files."""
    fields = {"VmRSS": "resident_mib", "VmHWM": "peak_mib", "RssAnon": "anonymous_mib"}
    sizes = dict.fromkeys(fields.values(), 0)
    for process in tree(pid):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in fields:
                sizes[fields[name]] += int(value.split()[0])
    return {name: round(size / 1024) for name, size in sizes.items()}


def cpu_seconds(pid):
    """Time that a process and those below it have computed."""
    seconds, ticks = 0, 0
    for process in tree(pid):
        if process == os.getpid():
            # More exact than ticks, which last longer than a fast search.
            seconds = time.process_time()
            continue
        # The name before may hold spaces; user and system time are the 12th and 13th after it.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return seconds + ticks / os.sysconf("SC_CLK_TCK")


def settle(pid):
    """Waits until a process has computed nearly nothing for a while: until it has maintained its tables."""
    until = time.monotonic() + SETTLE_SECONDS
    quiet, before = 0, cpu_seconds(pid)
    while quiet < QUIET_SECONDS and time.monotonic() < until:
        time.sleep(1)
        now = cpu_seconds(pid)
        quiet = quiet + 1 if now - before < 0.05 else 0
        before = now


def disk_mib(folder):
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return round(sum(path.stat().st_size for path in files) / (1 << 20), 1)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def milliseconds(seconds):
    return round(1000 * seconds, 2)


class Questions:
    """Questions with their vectors, and what an exact search finds for each."""

    def __init__(self, prepared, vectors):
        every = list(zip(prepared["questions"], vectors))
        warm = prepared["warm"]
        self.warm, self.asked = every[:warm], every[warm:]
        self.truth = prepared["truth"]

    def recall(self, found, filter_name, k):
        """Share of what an exact search finds that was found. Any of several equally good chunks counts."""
        shares = []
        for ids, truth in zip(found, self.truth[filter_name]):
            shares.append(min(1, len(set(ids) & set(truth["ids"])) / min(k, truth["count"])))
        return round(statistics.mean(shares), 4)


def one_client(search, questions):
    """Ids found, and seconds taken, question by question."""
    found, took = [], []
    until = time.perf_counter() + LATENCY_SECONDS
    for text, vector in questions:
        began = time.perf_counter()
        found.append(search(text, vector))
        took.append(time.perf_counter() - began)
        if time.perf_counter() > until:
            break
    return found, took


def many_clients(search, questions, clients):
    """Searches per second of clients that each wait for one answer before they ask again."""
    until = time.perf_counter() + CLIENTS_SECONDS
    counts, failures = [0] * clients, []

    def client(number):
        try:
            first = number * len(questions) // clients
            for text, vector in itertools.islice(itertools.cycle(questions), first, None):
                if time.perf_counter() > until:
                    break
                search(text, vector)
                counts[number] += 1
        except Exception as failure:  # A thread's failure is the run's, which is told below.
            failures.append(failure)

    threads = [threading.Thread(target=client, args=[number]) for number in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if failures:
        raise failures[0]
    return round(sum(counts) / took, 1)


def measured(engine, questions, pid, mode, where, filter_name, k):
    """One client's figures of one kind of search, after others warmed it."""

    def search(text, vector):
        return engine.search(mode, text, vector, where)

    one_client(search, questions.warm)
    engine.timings.clear()
    before = cpu_seconds(pid)
    found, took = one_client(search, questions.asked)
    figures = {
        "p50_ms": milliseconds(statistics.median(took)),
        "p99_ms": milliseconds(quantile(took, 0.99)),
        "cpu_ms": milliseconds((cpu_seconds(pid) - before) / len(took)),
        "searches": len(took),
    }
    if mode == "dense":
        figures["recall"] = questions.recall(found, filter_name, k)
    if engine.timings:
        for part in engine.timings[0]:
            figures[f"{part}_p50_ms"] = milliseconds(statistics.median(timing[part] for timing in engine.timings))
    return figures, search


def everything(engine, questions, filters, clients, k, pid):
    """All figures of an engine that was opened; `pid` is the process that searches."""
    modes = {}
    for mode in engine.modes:
        modes[mode], search = measured(engine, questions, pid, mode, None, "", k)
        throughput = {str(count): many_clients(search, questions.asked, count) for count in clients}
        modes[mode]["searches_per_s"] = throughput
    filtered = {}
    if engine.has_filters and "dense" in engine.modes:
        for one in filters:
            where = (one["column"], one["value"])
            filtered[one["name"]], _ = measured(engine, questions, pid, "dense", where, one["name"], k)
    return {"modes": modes, "filtered": filtered, **memory(pid)}
