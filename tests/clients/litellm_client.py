"""LiteLLM as a client of Clew: chat completions, whole and streamed, and embeddings.

Run by `tests/interfaces/clients.rs`, which prepares the server: a corpus `handbook` of documents, and a language
model that answers with one sentence of them. To run it by hand:

    .cache/python/bin/python tests/clients/litellm_client.py --base http://127.0.0.1:7422/v1
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os

# LiteLLM would fetch a list of prices; the one that comes with it will do.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

# The sentence that the server's model answers with.
ANSWER = "Backups are kept for thirty days."


class Tour:
    """What LiteLLM is used for, at a corpus."""

    def __init__(self, base: str, key: str) -> None:
        # Without retries, so that a refusal is told at once.
        self.to = {"api_base": base, "api_key": key, "max_retries": 0, "num_retries": 0}
        question = [{"role": "user", "content": "How long are backups kept?"}]
        self.chat = {**self.to, "model": "openai/handbook", "messages": question}

    def run(self) -> None:
        self.completions()
        self.streams()
        self.embeddings()
        self.refusals()

    def completions(self) -> None:
        whole = litellm.completion(**self.chat)
        [choice] = whole.choices
        assert (choice.finish_reason, choice.message.content) == ("stop", ANSWER), whole
        assert whole.usage.total_tokens > 0, whole

    def streams(self) -> None:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        check_chunks(list(litellm.completion(**self.chat, **options)))

    def embeddings(self) -> None:
        texts = ["the river", "a letter", "the river"]
        embedded = litellm.embedding(**self.to, model="openai/handbook", input=texts)
        vectors = [one["embedding"] for one in embedded.data]
        assert vectors[0] == vectors[2] != vectors[1], embedded
        for vector in vectors:
            assert math.isclose(sum(a * a for a in vector), 1.0, abs_tol=1e-3), vector

    def refusals(self) -> None:
        try:
            litellm.completion(**{**self.chat, "model": "openai/nowhere"})
        except litellm.NotFoundError as error:
            assert "nowhere" in str(error), error
        else:
            raise AssertionError("an unknown model was answered")

    async def together(self) -> None:
        for whole in await asyncio.gather(*(litellm.acompletion(**self.chat) for _ in range(2))):
            assert whole.choices[0].message.content == ANSWER, whole
        stream = await litellm.acompletion(**self.chat, stream=True)
        check_chunks([chunk async for chunk in stream])


def check_chunks(chunks: list) -> None:
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == ANSWER, chunks
    reasons = [choice.finish_reason for choice in choices]
    assert reasons.count("stop") == 1, reasons


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", required=True)
    parser.add_argument("--key", default="none")
    arguments = parser.parse_args()
    tour = Tour(arguments.base, arguments.key)
    tour.run()
    asyncio.run(tour.together())
    print("all is well")


if __name__ == "__main__":
    main()
