"""The `openai` library as a client of Clew: models, chat completions, streams and embeddings.

It fails at anything that the library does not understand. Run by `tests/interfaces/openai.rs`,
which prepares the server: a corpus `handbook` of documents and a corpus `chats` for conversations.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math

import openai

# Words of the one sentence that the server's model answers with, and the document that it cites.
ANSWER = "Backups are kept for thirty days."
CITED = "clew:handbook/backups.md#bytes="
# Replies to a repeated prompt are cached and cost nothing, so each question has a number.
NUMBERS = itertools.count()


def question() -> list[dict]:
    return [{"role": "user", "content": f"How long are backups kept? ({next(NUMBERS)})"}]


def refused(call, kind: type[openai.APIStatusError], code: str, param: str | None):
    """Fails unless `call` is refused with that error of the library, that code and that parameter."""
    try:
        call()
    except openai.APIStatusError as error:
        assert type(error) is kind, error
        assert (error.code, error.param) == (code, param), error.body
        assert error.message and error.type, error.body
        return
    raise AssertionError(f"it was not refused with {code}")


def check_models(client: openai.OpenAI) -> None:
    models = client.models.list().data
    ids = [model.id for model in models]
    assert ids[:3] == ["chats", "files", "handbook"], ids
    # A corpus without a tree has no models that walk one.
    assert "handbook:memwalker-best" in ids and "chats:direct" in ids, ids
    assert "chats:memwalker-best" not in ids and len(set(ids)) == len(ids), ids
    assert all(model.object == "model" and model.created > 0 for model in models), models
    assert client.models.retrieve("handbook").id == "handbook"
    assert client.models.retrieve("handbook:memwalker-best").id == "handbook:memwalker-best"
    for name in ("nowhere", "handbook:oracle"):
        missing = lambda: client.models.retrieve(name)
        refused(missing, openai.NotFoundError, "model_not_found", "model")


def check_whole(completion) -> None:
    assert completion.object == "chat.completion" and completion.model == "handbook", completion
    [choice] = completion.choices
    assert (choice.finish_reason, choice.message.role) == ("stop", "assistant"), completion
    assert choice.message.content == ANSWER, completion
    [annotation] = choice.message.annotations
    citation = annotation.url_citation
    assert citation.url.startswith(CITED) and citation.title == "Backups", annotation
    assert 0 <= citation.start_index < citation.end_index <= len(ANSWER), annotation
    usage = completion.usage
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0, usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage
    assert completion.clew["outcome"] == "answered", completion


def check_chunks(chunks: list) -> None:
    assert len({chunk.id for chunk in chunks}) == 1, chunks
    *answering, last = chunks
    assert last.choices == [] and last.usage.total_tokens > 0, last
    assert all(chunk.usage is None for chunk in answering), answering
    deltas = [chunk.choices[0].delta for chunk in answering]
    assert deltas[0].role == "assistant", deltas
    assert "".join(delta.content or "" for delta in deltas) == ANSWER, deltas
    reasons = [chunk.choices[0].finish_reason for chunk in answering]
    assert reasons[-1] == "stop" and not any(reasons[:-1]), reasons
    annotations = [one for delta in deltas for one in getattr(delta, "annotations", None) or []]
    assert [one["url_citation"]["url"].startswith(CITED) for one in annotations] == [True]


def check_completions(client: openai.OpenAI) -> None:
    # Parameters without a meaning for Clew are ignored.
    ignored = {"model": "handbook", "temperature": 0.2, "seed": 7, "user": "u"}
    check_whole(client.chat.completions.create(messages=question(), **ignored))
    streamed = client.chat.completions.create(
        messages=question(), stream=True, stream_options={"include_usage": True}, **ignored
    )
    check_chunks(list(streamed))
    # Without being asked for it, a stream tells no usage.
    plain = client.chat.completions.create(model="handbook", messages=question(), stream=True)
    assert all(chunk.usage is None for chunk in plain)
    parts = [{"type": "text", "text": "How long are"}, {"type": "text", "text": "backups kept?"}]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]
    check_whole(client.chat.completions.create(model="handbook", messages=messages))
    with client.chat.completions.stream(model="handbook", messages=question()) as stream:
        stream.until_done()
        assert stream.get_final_completion().choices[0].message.content == ANSWER


async def check_async(base: str, key: str) -> None:
    async with openai.AsyncOpenAI(base_url=base, api_key=key, max_retries=0) as client:
        create = client.chat.completions.create
        asking = (create(model="handbook", messages=question()) for _ in range(4))
        for completion in await asyncio.gather(*asking):
            check_whole(completion)
        stream = await create(
            model="handbook",
            messages=question(),
            stream=True,
            stream_options={"include_usage": True},
        )
        check_chunks([chunk async for chunk in stream])
        embedded = await client.embeddings.create(model="handbook", input="a")
        assert len(embedded.data[0].embedding) > 0


def check_embeddings(client: openai.OpenAI) -> None:
    texts = ["the river", "a letter for the new friend", "the river"]
    # The library asks for base64 unless it is told otherwise.
    coded = client.embeddings.create(model="handbook", input=texts)
    plain = client.embeddings.create(model="handbook", input=texts, encoding_format="float")
    assert [one.index for one in coded.data] == [0, 1, 2], coded
    for left, right in zip(coded.data, plain.data):
        assert len(left.embedding) == len(right.embedding)
        assert all(math.isclose(a, b, abs_tol=1e-6) for a, b in zip(left.embedding, right.embedding))
        assert math.isclose(sum(a * a for a in left.embedding), 1.0, abs_tol=1e-3)
    assert coded.data[0].embedding == coded.data[2].embedding != coded.data[1].embedding
    assert coded.usage.prompt_tokens == coded.usage.total_tokens > 0, coded.usage
    # By the name of the embedding model as well, and more texts than one call of Clew takes.
    many = client.embeddings.create(model=coded.clew["model"], input=[f"text {n}" for n in range(300)])
    assert len(many.data) == 300 and many.data[299].embedding != many.data[0].embedding
    tokens = lambda: client.embeddings.create(model="handbook", input=[[1, 2, 3]])
    refused(tokens, openai.BadRequestError, "invalid_input", "input")
    missing = lambda: client.embeddings.create(model="text-embedding-3-small", input="a")
    refused(missing, openai.NotFoundError, "model_not_found", "model")


def check_vector_stores(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="guides")
    assert (store.id, store.status, store.file_counts.total) == ("guides", "completed", 0), store
    refused(
        lambda: client.vector_stores.create(name="Not a name"),
        openai.BadRequestError,
        "invalid_input",
        "name",
    )
    text = b"# Ferries\n\nThe ferry to Xqvzkwjb leaves at noon.\n"
    file = client.files.create(file=("ferries.md", text), purpose="assistants")
    assert (file.filename, file.bytes, file.object) == ("ferries.md", len(text), "file"), file
    assert client.files.content(file.id).content == text
    assert [one.id for one in client.files.list()] == [file.id]
    attached = client.vector_stores.files.create_and_poll(
        vector_store_id=store.id, file_id=file.id, attributes={"year": 2020, "kind": "travel"}
    )
    assert (attached.status, attached.last_error) == ("completed", None), attached
    assert attached.attributes == {"year": 2020, "kind": "travel"}, attached
    other = ("bees.txt", b"Bees are kept by many. They make honey.")
    other = client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=other)
    assert other.status == "completed", other
    # Two pages of one file each.
    paged = [one.id for one in client.vector_stores.files.list(store.id, limit=1)]
    assert sorted(paged) == sorted([file.id, other.id]), paged

    def search(**fields):
        found = client.vector_stores.search(store.id, query="Xqvzkwjb ferry", **fields).data
        assert all(0 <= one.score <= 1 for one in found), found
        return [one.filename for one in found]

    assert sorted(set(search())) == ["bees.txt", "ferries.md"]
    recent = {"type": "gte", "key": "year", "value": 2020}
    assert set(search(filters=recent)) == {"ferries.md"}
    later = {"type": "gt", "key": "year", "value": 2020}
    assert search(filters={"type": "or", "filters": [later, later]}) == []
    assert len(search(max_num_results=1)) == 1
    assert search(ranking_options={"score_threshold": 1.0}) == []
    several = client.vector_stores.search(store.id, query=["ferry", "honey"]).data
    assert len({(one.file_id, one.content[0].text) for one in several}) == len(several)

    assert client.vector_stores.files.delete(other.id, vector_store_id=store.id).deleted
    assert client.files.delete(file.id).deleted and not client.files.delete(file.id).deleted
    gone = lambda: client.files.retrieve(file.id)
    refused(gone, openai.NotFoundError, "not_found", "file_id")
    # What was attached stays where it was attached to.
    assert client.vector_stores.retrieve(store.id).file_counts.completed == 1
    pdf = lambda: client.files.create(file=("a.pdf", b"%PDF\xff\xfe"), purpose="assistants")
    refused(pdf, openai.BadRequestError, "invalid_input", "file")
    assert client.vector_stores.delete(store.id).deleted
    missing = lambda: client.vector_stores.retrieve(store.id)
    refused(missing, openai.NotFoundError, "not_found", "vector_store_id")


def check_refusals(client: openai.OpenAI) -> None:
    def completion(**fields):
        return lambda: client.chat.completions.create(
            **{"model": "handbook", "messages": question(), **fields}
        )

    refused(completion(model="gpt-4.1"), openai.NotFoundError, "model_not_found", "model")
    oracle = completion(model="handbook:oracle")
    refused(oracle, openai.NotFoundError, "model_not_found", "model")
    refused(completion(messages=[]), openai.BadRequestError, "invalid_input", "messages")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    pictured = completion(messages=[{"role": "user", "content": [image]}])
    refused(pictured, openai.BadRequestError, "invalid_input", "messages[0].content[0].type")
    refused(completion(model="chats"), openai.BadRequestError, "invalid_input", "X-Clew-User")
    # A refusal of a stream comes before the stream.
    streamed = completion(model="nowhere", stream=True)
    refused(streamed, openai.NotFoundError, "model_not_found", "model")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", required=True)
    parser.add_argument("--key", default="none")
    arguments = parser.parse_args()
    with openai.OpenAI(base_url=arguments.base, api_key=arguments.key, max_retries=0) as client:
        check_models(client)
        check_completions(client)
        check_embeddings(client)
        check_vector_stores(client)
        check_refusals(client)
    asyncio.run(check_async(arguments.base, arguments.key))
    print("all is well")


if __name__ == "__main__":
    main()
