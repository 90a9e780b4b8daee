"""./bench.sh --peers: the list, their page, how they are got and started.

Real peers in Python are not tried here (they need packages); nginx and
node are if they are installed. How a run takes them: test_bench_run.
"""

import re
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.marks import Patch
from tools.bench.cost import Meter
from tools.bench.peers import on, page, start
from tools.bench.server import ServerError
from tools.peers import PEERS, Peer, by_name, select
from tools.servers import SERVERS


@pytest.mark.parametrize("peer", PEERS)
def test_it_can_be_told_got_and_started(peer: Peer) -> None:
    assert peer.title and peer.about.endswith(".")
    assert bool(peer.module) == peer.is_python == (not peer.get)
    pins = start.REQUIREMENTS.read_text()
    assert all(f"\n{package}==" in pins for package in peer.packages)
    if on.__name__ in peer.start:
        assert hasattr(on, f"on_{peer.name}")


def test_names_are_chosen_in_the_order_of_the_list() -> None:
    assert not {p.name for p in PEERS} & {s.name for s in SERVERS}
    assert select("node, nginx") == [by_name("nginx"), by_name("node")]
    assert select("all") == list(PEERS)
    for names, says in (
        ("banana", "no peer is called 'banana'"), (",", "names no peer"),
        ("nginx,3", "no peer is called '3'"), ("", "names no peer"),
    ):
        with pytest.raises(ValueError, match=says):
            select(names)


def test_the_page_is_that_of_our_servers(tmp_path: Path) -> None:
    assert len(page.PAGE) == 249
    for server in SERVERS:
        source = server.path.read_text()
        if "PAGE = " in source:
            assert page.PAGE.decode() in source, server.file
    said: list[object] = []
    body = page.wsgi({}, lambda *words: said.append(words))
    assert b"".join(body) == page.PAGE
    assert said == [("200 OK", page.FIELDS)]
    start.write_nginx_conf(tmp_path, 1234)
    text = (tmp_path / "nginx.conf").read_text()
    assert f"return 200 '{page.PAGE.decode()}';" in text
    assert "listen 127.0.0.1:1234 backlog=4096;" in text
    assert "$" not in text


@pytest.mark.parametrize(("head", "connection", "keep"), [
    (b"GET / HTTP/1.1\r\nHost: x\r\n", b"", True),
    (b"GET / HTTP/1.1\r\nConnection: close\r\n", b"", False),
    (b"GET / HTTP/1.0\r\nHost: x\r\n", b"", False),
    (
        b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n",
        b"Connection: keep-alive\r\n", True,
    ),
])
def test_responses_written_by_hand(
    head: bytes, connection: bytes, keep: bool
) -> None:
    assert page.response(head) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
        b"Content-Length: 249\r\n" + connection + b"\r\n" + page.PAGE, keep
    )


def test_a_program_that_is_missing(monkeypatch: Patch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    nginx, node = select("nginx,node")
    assert start.missing([nginx, node]) == {
        "nginx": "nginx is not installed: apt install nginx-light, or brew "
        "install nginx",
        "node": "node is not installed: apt install nodejs, or brew install "
        "node",
    }
    assert start.versions([node]) == {"node": "?"}
    with (
        pytest.raises(ServerError, match="nginx cannot be run"),
        start.start(nginx),
    ):
        pass


def fail(*words: object, **options: object) -> None:
    raise subprocess.CalledProcessError(1, "ensurepip")


def test_a_package_that_cannot_be_had(
    monkeypatch: Patch, tmp_path: Path
) -> None:
    said: list[str] = []
    monkeypatch.setattr(start, "VENV", tmp_path / ".venv-peers")
    monkeypatch.setattr(start, "PYTHON", tmp_path / "pip")
    monkeypatch.setattr("venv.create", fail)
    assert start.missing([by_name("trio")], said.append) == {
        "trio": "the environment .venv-peers cannot be made: on Debian and "
        "Ubuntu, apt install python3-venv"
    }
    assert len(said) == 1
    monkeypatch.setattr(start, "_make_venv", lambda say: None)
    # An interpreter that cannot import it until pip has been run twice.
    script = (
        'case $1 in -c) [ -f pip2 ] && echo here ;; *) [ -f pip1 ] && '
        '>pip2; >pip1; echo "ERROR: no" >&2; exit 1 ;; esac'
    )
    (tmp_path / "pip").write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
    (tmp_path / "pip").chmod(0o755)
    for why in ({"trio": "trio cannot be installed: no"}, {}):
        assert start.missing([by_name("trio")]) == why


@pytest.mark.parametrize("name", ["nginx", "node"])
def test_a_real_one(name: str) -> None:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    version = start.versions(select(f"asyncio,trio,{name}"))
    assert {*version} == {"trio", name}
    assert re.fullmatch(r"\d[\d.]+", version[name])
    with start.start(by_name(name)) as process:
        process.warm_up(20)
        meter = Meter(process)
        process.warm_up(100)
        cost = meter.read()
        family = process.processes()
    assert cost.cpu_user + cost.cpu_system > 0
    assert not psutil.wait_procs(family, 10)[1]
