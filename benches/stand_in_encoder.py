"""An embedding endpoint whose vectors cost next to nothing, for measuring what else a large corpus costs.

    python3 benches/stand_in_encoder.py --port 8701 > encoder.toml &
    clew corpus create big --no-structure --max-tokens 128 --config encoder.toml
    python3 benches/make_corpus.py 1000000 | clew ingest --corpus big --config encoder.toml -

A vector is the sum of one random direction for each word of the text, where short words count less. So texts with
the same rare words are near to each other, as with a real model, and the same text always has the same vector. It
tells nothing about the quality of searches. The configuration that Clew needs comes on standard output.

It needs numpy.
"""

import argparse
import json
import re
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy

DIMENSION = 384
# Words share directions beyond this number of them.
DIRECTIONS = 1 << 16
WORD = re.compile(r"\w+")
# Words of up to so many letters are mostly function words.
SHORT = 4
WEIGHT_OF_SHORT = 0.1
# Components are sent as whole numbers, which are quick to write. Clew scales vectors to length one.
SCALE = 1000

CONFIGURATION = """[encoder.endpoint]
url = "http://127.0.0.1:{port}/v1"
model = "stand-in"
dimension = {dimension}
batch = 256
max_concurrency = 4
"""


class Words:
    """The number and the weight of each word."""

    def __init__(self):
        self.known = {}
        directions = numpy.random.default_rng(1).standard_normal((DIRECTIONS, DIMENSION))
        self.directions = directions.astype(numpy.float32)

    def of(self, word):
        found = self.known.get(word)
        if found is None:
            weight = WEIGHT_OF_SHORT if len(word) <= SHORT else 1.0
            found = self.known[word] = (zlib.crc32(word.encode()) % DIRECTIONS, weight)
        return found

    def vector(self, text):
        words = [self.of(word) for word in WORD.findall(text.lower())] or [self.of("")]
        numbers, weights = zip(*words)
        sum_of_all = numpy.asarray(weights, dtype=numpy.float32) @ self.directions[list(numbers)]
        length = float(numpy.linalg.norm(sum_of_all)) or 1.0
        return numpy.rint(sum_of_all * (SCALE / length)).astype(int).tolist()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave together. Otherwise the client waits for one to be acknowledged.
    wbufsize = -1
    words = Words()

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = request["input"]
        texts = [texts] if isinstance(texts, str) else texts
        data = [{"index": place, "embedding": self.words.vector(text)} for place, text in enumerate(texts)]
        tokens = sum(len(text) for text in texts) // 4
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        body = json.dumps({"object": "list", "model": "stand-in", "data": data, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8701, help="port on 127.0.0.1 (default: 8701)")
    port = parser.parse_args().port
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(CONFIGURATION.format(port=port, dimension=DIMENSION), flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
