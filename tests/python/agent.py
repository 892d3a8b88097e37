"""An agent that uses Clew's tools, by the official client of the Model Context Protocol.

It goes through every tool in every mode of the client, and fails at anything that is not as the tools'
schemas say. Run by `tests/interfaces/mcp.rs`; to run it by hand, on a server whose only corpus `notes` holds
a document `bees`:

    .cache/python/bin/python tests/python/agent.py --url http://127.0.0.1:7422/mcp
    .cache/python/bin/python tests/python/agent.py --command target/debug/clew mcp --data-dir .clew

With several addresses, the requests of each client go to one after the other. `--mode` names the modes that are
wanted; without it, all are.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

# Mode of the client, and the revision that it comes to speak with a server of all revisions.
MODES = {"auto": "2026-07-28", "legacy": "2025-11-25", "2026-07-28": "2026-07-28"}
# Seconds that any request may take.
PATIENCE = 60
TOOLS = ["search", "fetch", "ask", "remember", "recall", "list_corpora", "explore_graph"]


class InTurn(httpx2.AsyncBaseTransport):
    """Sends each request to the next of several servers, as a load balancer does."""

    def __init__(self, urls: list[str]) -> None:
        self.inner = httpx2.AsyncHTTPTransport()
        self.urls = itertools.cycle([httpx2.URL(url) for url in urls])
        self.used: set[int | None] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = next(self.urls)
        self.used.add(url.port)
        request.url = request.url.copy_with(host=url.host, port=url.port)
        request.headers["host"] = f"{url.host}:{url.port}"
        return await self.inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self.inner.aclose()


class Tour:
    """Every tool, in the order in which an agent may come to use them."""

    def __init__(self, client: Client, word: str) -> None:
        self.client = client
        # Another one in each run, so that what it remembers is new.
        self.word = word

    async def call(self, tool: str, **arguments: object) -> dict:
        # The client itself checks the result against the tool's schema.
        result = await self.client.call_tool(tool, arguments)
        texts = [content.text for content in result.content]
        assert not result.is_error, f"{tool}: {texts}"
        assert len(texts) == 1 and json.loads(texts[0]) == result.structured_content, texts
        assert result.meta and "data" in result.meta["clew/untrusted"], result.meta
        return result.structured_content

    async def refused(self, tool: str, reason: str, **arguments: object) -> None:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error and result.content[0].text.startswith(reason), result

    async def run(self) -> None:
        tools = (await self.client.list_tools()).tools
        assert [tool.name for tool in tools] == TOOLS, tools
        assert all(tool.output_schema and tool.annotations for tool in tools), tools
        await self.read()
        await self.converse()
        await self.refused("search", "NOT_FOUND", query="bees", corpus="absent")
        await self.refused("recall", "INVALID_INPUT", question="Why?", k=1000)
        await self.refused("ask", "INVALID_INPUT", question="Why?", strategy="guess")

    async def read(self) -> None:
        corpora = await self.call("list_corpora")
        assert [corpus["name"] for corpus in corpora["corpora"]] == ["notes"], corpora
        found = (await self.call("search", query="When do bees swarm?"))["results"]
        assert found[0]["id"] == "bees", found
        document = await self.call("fetch", id="bees")
        assert found[0]["text"] in document["text"] and document["url"], document
        answer = await self.call("ask", question="When do bees swarm?")
        assert answer["outcome"] == "answered" and answer["citations"][0]["id"] == "bees", answer
        graph = await self.call("explore_graph", entity="Bohumil", hops=2)
        assert any(entity["name"] == "Bohumil" for entity in graph["entities"]), graph

    async def converse(self) -> None:
        text = f"My favourite tea is {self.word}."
        kept = await self.call("remember", text=text, user="ann")
        assert not kept["unchanged"] and kept["time"], kept
        again = await self.call("remember", text=text, user="ann")
        assert again == {**kept, "unchanged": True}, again
        recalled = await self.call("recall", question=f"Does anybody drink {self.word}?", user="ann")
        said = [turn["text"] for kept in recalled["rounds"] for turn in kept["turns"]]
        assert text in said, recalled
        nobody = await self.call("recall", question=f"Does anybody drink {self.word}?", user="bob")
        assert nobody == {"rounds": []}, nobody


async def tour(client: Client, revision: str, word: str) -> None:
    async with client:
        assert client.protocol_version == revision, client.protocol_version
        await Tour(client, word).run()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", action="append", default=[])
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("--command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    assert bool(arguments.url) != bool(arguments.command), "expected --url or --command"
    for mode in arguments.mode or MODES:
        revision = MODES[mode]
        word = f"brew{mode.replace('-', '')}x{os.getpid()}"
        if arguments.command:
            program, *rest = arguments.command
            server = StdioServerParameters(command=program, args=rest, cwd=os.getcwd())
            client = Client(server, mode=mode, read_timeout_seconds=PATIENCE)
            await tour(client, revision, word)
        else:
            transport = InTurn(arguments.url)
            async with httpx2.AsyncClient(transport=transport, timeout=PATIENCE) as http:
                server = streamable_http_client(arguments.url[0], http_client=http)
                client = Client(server, mode=mode, read_timeout_seconds=PATIENCE)
                await tour(client, revision, word)
            assert len(transport.used) == len(arguments.url), transport.used
        print(f"{mode}: done")
    print("all is well")


if __name__ == "__main__":
    asyncio.run(main())
