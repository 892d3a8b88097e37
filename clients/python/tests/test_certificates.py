"""Encrypted connections, with certificates that are made here."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
from collections.abc import Callable

import pytest
from conftest import PROGRAM, Server

import clew

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="there is no `openssl`")


class Authority:
    """An authority that certifies names."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self._folder = folder
        self.certificate, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def certify(self, name: str, *alternatives: str) -> tuple[pathlib.Path, pathlib.Path]:
        """Returns the files of a certificate and of its key."""
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        extension = ["-addext", f"subjectAltName={','.join(alternatives)}"] if alternatives else []
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-days", "2", "-subj", f"/CN={name}", *extension),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", str(key), "-out", str(certificate)),
        )
        return certificate, key

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def test_both_sides_prove_who_they_are(
    serve: Callable[..., Server], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, clients = Authority(tmp_path, "nodes"), Authority(tmp_path, "clients")
    names = ["DNS:localhost", "DNS:node.clew.internal"]
    roles = ("gateway", "retriever", "encoder", "graph-builder", "generator")
    names += [f"DNS:{role}.node.clew.internal" for role in roles]
    server_chain, server_key = nodes.certify("server", *names)
    client_chain, client_key = clients.certify("client", "DNS:client")
    made = subprocess.run(
        [PROGRAM, "key", "notes"], check=True, capture_output=True, text=True
    ).stdout
    keys = tmp_path / "keys.toml"
    keys.write_text(made[made.index("[[key]]") :], "utf-8")
    config = tmp_path / "clew.toml"
    config.write_text(
        f'auth.keys_file = "{keys}"\n'
        f'tls.certificate = "{server_chain}"\ntls.key = "{server_key}"\n'
        f'tls.ca = "{nodes.certificate}"\ntls.client_ca = "{clients.certificate}"\n',
        "utf-8",
    )
    server = serve("--config", str(config))
    endpoint = f"https://localhost:{server.endpoint.rpartition(':')[2]}"
    api_key = made.partition("\n")[0]

    monkeypatch.setenv("CLEW_CA", str(nodes.certificate))
    monkeypatch.setenv("CLEW_CLIENT_CERTIFICATE", str(client_chain))
    monkeypatch.setenv("CLEW_CLIENT_KEY", str(client_key))
    with clew.Client(endpoint, api_key=api_key) as client:
        assert client.whoami().key == "notes"
    # Of another authority, without a certificate, and by a name that is not certified.
    strangers = (
        clew.Client(endpoint, api_key=api_key, ca=clients.certificate),
        clew.Client(endpoint.replace("localhost", "127.0.0.1"), api_key=api_key),
    )
    for stranger in strangers:
        with stranger, pytest.raises(clew.UnavailableError):
            stranger.whoami(timeout=2)
    monkeypatch.delenv("CLEW_CLIENT_CERTIFICATE")
    monkeypatch.delenv("CLEW_CLIENT_KEY")
    with clew.Client(endpoint, api_key=api_key) as client:
        with pytest.raises(clew.UnavailableError):
            client.whoami(timeout=2)
