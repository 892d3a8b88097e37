"""Errors: what they say, and what the client does about them."""

from __future__ import annotations

import pathlib
import pickle
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import grpc
import pytest
from blocking import connected
from conftest import PROGRAM, Server

import clew

TENANTS = """
[[tenant]]
name = "acme"

[[tenant]]
name = "slow"
requests_per_second = 2
burst_secs = 1
"""


@dataclass
class Guarded:
    """A server that asks for keys."""

    endpoint: str
    owner: str
    """Key that may do everything and holds the label `legal`."""
    reader: str
    """Key that may read and holds no label."""
    slow: str
    """Key of a tenant that may call twice a second."""


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    folder = tmp_path_factory.mktemp("keys")
    entries: list[str] = []

    def key(name: str, *arguments: str) -> str:
        command = [PROGRAM, "key", name, *arguments]
        made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        shown, _, entry = made.partition("\n")
        entries.append(entry[entry.index("[[key]]") :])
        return shown.strip()

    rights = ("--scope", "read,write,admin")
    owner = key("owner", "--tenant", "acme", *rights, "--holds", "legal")
    reader = key("reader", "--tenant", "acme")
    slow = key("slow", "--tenant", "slow", *rights)
    (folder / "keys.toml").write_text("\n".join([*entries, TENANTS]), "utf-8")
    config = folder / "clew.toml"
    config.write_text(f'[auth]\nkeys_file = "{folder / "keys.toml"}"\n', "utf-8")
    return Guarded(serve("--config", str(config)).endpoint, owner, reader, slow)


@pytest.mark.parametrize("key", [None, "clew_wrong"])
def test_a_wrong_key_is_refused(guarded: Guarded, key: str | None) -> None:
    with clew.Client(guarded.endpoint, api_key=key) as client:
        with pytest.raises(clew.UnauthenticatedError) as raised:
            list(client.corpora())
        assert (raised.value.code, raised.value.is_retryable) == ("UNAUTHENTICATED", False)


def test_the_key_comes_from_the_environment(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_ENDPOINT", guarded.endpoint)
    monkeypatch.setenv("CLEW_API_KEY", guarded.reader)
    with clew.Client() as client:
        caller = client.whoami()
    assert (caller.key, caller.tenant, caller.scopes) == ("reader", "acme", ("read",))
    assert (caller.labels, caller.holds_all_labels) == ((), False)


def test_a_key_that_does_not_open_the_call_is_denied(guarded: Guarded) -> None:
    with clew.Client(guarded.endpoint, api_key=guarded.reader) as client:
        with pytest.raises(clew.PermissionDeniedError):
            client.create_corpus("denied")


def test_labels_that_are_not_held_are_refused_and_hide_documents(guarded: Guarded) -> None:
    secret = clew.Document("secret", "The contract is signed.", labels=("legal",))
    with clew.Client(guarded.endpoint, api_key=guarded.owner) as owner:
        corpus = owner.create_corpus("labels", structure=None)
        others = clew.Document("other", "The other contract.", labels=("board",))
        report = corpus.ingest([secret, others, clew.Document("open", "A notice.")], wait=True)
        (refused,) = report.refusals
        assert refused.refusal is not None
        assert (refused.id, refused.refusal.reason) == ("other", "LABEL_NOT_HELD")
        assert corpus.document("secret").labels == ("legal",)
    with clew.Client(guarded.endpoint, api_key=guarded.reader) as reader:
        corpus = reader.corpus("labels")
        assert [state.id for state in corpus.documents()] == ["open"]
        with pytest.raises(clew.NotFoundError):
            corpus.document("secret")


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_spent_quota_is_waited_for_where_the_call_may_be_repeated(
    guarded: Guarded, kind: str
) -> None:
    with connected(kind, guarded.endpoint, api_key=guarded.slow) as client:  # type: ignore[arg-type]
        begun = time.monotonic()
        for _ in range(5):
            client.strategies()
        assert time.monotonic() - begun > 1.0, "two calls a second, and two at once"
        with pytest.raises(clew.ResourceExhaustedError) as raised:  # noqa: PT012
            # The first ones may find a unit left.
            for number in range(5):
                client.create_corpus(f"{kind}-{number}", structure=None)
        error = raised.value
        assert (error.reason, error.is_retryable) == ("QUOTA_SPENT", True)
        assert error.retry_after is not None
        assert timedelta() < error.retry_after <= timedelta(seconds=1)


def test_a_pause_beyond_the_timeout_is_not_waited_for(guarded: Guarded) -> None:
    with clew.Client(guarded.endpoint, api_key=guarded.slow) as client:
        with pytest.raises(clew.ResourceExhaustedError):  # noqa: PT012
            for _ in range(10):
                client.strategies(timeout=0.2)


def test_an_invalid_request_names_every_field(any_client: clew.Client) -> None:
    with pytest.raises(clew.InvalidArgumentError) as raised:
        any_client.corpus("any").search(" ", k=0)
    error = raised.value
    assert [violation.field for violation in error.violations] == ["query", "k"]
    assert error.reason == "INVALID_INPUT"
    assert str(error).count("must contain something") == 1, "nothing is said twice"
    assert "expected 1 to 1000, got 0" in str(error)


def test_a_single_text_is_not_taken_for_its_characters(any_client: clew.Client) -> None:
    corpus = any_client.corpus("any")
    for call in (
        lambda: corpus.forget("river"),
        lambda: corpus.delete_snapshots("first"),
        lambda: corpus.restore("first", leave_out="river"),
        lambda: corpus.embed("river"),
        lambda: any_client.embed("river"),
        lambda: corpus.ingest([clew.Document("a", "b", labels="river")]),  # type: ignore[arg-type]
        lambda: corpus.search("x", where=clew.where("a").is_in("river")),
        lambda: corpus.search("x", where=clew.Filter(document_ids="river")),  # type: ignore[arg-type]
        lambda: corpus.user("ada").recall("x", keys="river"),
        lambda: corpus.user("ada").append([], session="a", labels="river"),
    ):
        with pytest.raises(clew.InvalidArgumentError, match="expected several"):
            call()


def test_what_does_not_exist_is_not_found(any_client: clew.Client) -> None:
    corpus = any_client.corpus("nowhere")
    for call in (
        corpus.describe,
        corpus.delete,
        lambda: corpus.search("x"),
        lambda: corpus.ask("x?"),
        lambda: list(corpus.documents()),
        lambda: corpus.ingest([clew.Document("a", "b")]),
        lambda: corpus.wait_until_indexed(),
        lambda: corpus.user("ada").recall("x"),
    ):
        with pytest.raises(clew.NotFoundError, match="corpus `nowhere`") as raised:
            call()
        assert raised.value.reason == "NOT_FOUND"


def test_a_call_ends_with_its_timeout(any_corpus: clew.Corpus) -> None:
    # Either the client or the server notices first.
    for timeout in (0.0, 0.000_001, 0.000_1):
        with pytest.raises(clew.DeadlineExceededError) as raised:
            any_corpus.search("x", timeout=timeout)
        assert isinstance(raised.value, TimeoutError)
    any_corpus.ingest([clew.Document("a", "b")], wait=True)
    with pytest.raises(clew.DeadlineExceededError):
        # It goes on for as long as it is read.
        list(any_corpus.watch(timeout=0.3))


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_an_absent_server_is_named(nobody: str, kind: str) -> None:
    with connected(kind, nobody) as client:  # type: ignore[arg-type]
        begun = time.monotonic()
        with pytest.raises(clew.UnavailableError, match=re.escape(nobody)) as raised:
            client.whoami()
        assert 0.5 < time.monotonic() - begun < 20, "it was tried several times"
        assert (raised.value.reason, raised.value.is_retryable) == ("TRANSPORT", True)


def test_a_call_is_made_again_when_the_server_comes_back(serve: Callable[..., Server]) -> None:
    server = serve()
    with clew.Client(server.endpoint) as client:
        client.create_corpus("kept", structure=None)
        server.kill()
        server.start()
        assert [corpus.name for corpus in client.corpora()] == ["kept"]
    server.stop()


@pytest.mark.parametrize(
    "endpoint",
    ["127.0.0.1:7421", "ftp://x", "http://", "http://x:y", "http://x/api", "http://x:99999"],
)
def test_an_address_of_another_form_is_refused(endpoint: str) -> None:
    with pytest.raises(clew.InvalidArgumentError, match="expected an address like"):
        clew.Client(endpoint)


def test_a_client_without_an_address_says_where_it_comes_from() -> None:
    with pytest.raises(clew.InvalidArgumentError, match="`CLEW_ENDPOINT`"):
        clew.Client()


def test_files_that_cannot_be_read_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(clew.InvalidArgumentError, match="nothing"):
        clew.Client("https://localhost:1", ca=tmp_path / "nothing.pem")
    (tmp_path / "chain.pem").write_text("x", "utf-8")
    with pytest.raises(clew.InvalidArgumentError, match="with its key"):
        clew.Client("https://localhost:1", client_certificate=tmp_path / "chain.pem")


def test_a_closed_client_says_so(server: Server) -> None:
    client = clew.Client(server.endpoint)
    client.close()
    with pytest.raises(clew.FailedPreconditionError, match="closed"):
        client.whoami()


def test_errors_travel_between_processes() -> None:
    violations = (clew.Violation("k", "expected 1"),)
    error = clew.InvalidArgumentError(
        "wrong", reason="R", code="C", violations=violations, retry_after=timedelta(seconds=1)
    )
    report = clew.IngestReport(0, 0, 0, 1, ())
    refused = clew.RefusedError("refused", reason="R", report=report)
    for each in (error, refused):
        copy = pickle.loads(pickle.dumps(each))
        assert (type(copy), copy.__dict__, str(copy)) == (type(each), each.__dict__, str(each))


def test_every_code_of_grpc_makes_an_error_that_programs_can_catch() -> None:
    from clew._errors import KINDS

    # A call that was cancelled by its own client is no error of a server.
    assert {code.name for code in grpc.StatusCode} - set(KINDS) == {"OK", "CANCELLED"}
