"""Responses that are sent at once, and prepared for the next request.

Most clients wait for nothing but a small response, and the kernel has
room for it. So it is sent without a completion: if it cannot be sent
whole, the next batch begins with that.

And clients repeat themselves. A worker remembers, for a second, what it
responded to a request; the next one of the same kind gets the same
bytes, without being parsed again. A second, because of the Date.
"""

from __future__ import annotations

import errno
import functools
import re
import time

from client import Client, Engine, Kind
from emulated import Prepared
from web import CLOSE, READ, BadRequest, shutting_down, status_of

MOST_KINDS = 256  # of requests, to have a response prepared for
SHORT_HEAD = 1024  # bytes: a longer one is not worth remembering
LINE = re.compile(rb"(\S+) ([!-~]+) (HTTP/1\.[0-9])\r\n")


class AtOnce:
    """Sends whole responses, the prepared ones among them."""

    def __init__(
        self,
        engine: Engine,
        clients: dict[int, Client],
        prepares: bool,
    ) -> None:
        self.engine, self.clients = engine, clients
        self.prepares = prepares  # not if each request takes work
        self.prepared: dict[Kind, Prepared] = {}
        self.second = 0  # for which they are right
        self.now = 0.0
        self.requests = 0  # that got their responses so
        # Sent in this batch; whether it worked, the next one shows.
        self.pending: list[Client] = []

    def begin_batch(self, now: float) -> list[Client]:
        """What became of the last batch: the clients to resume."""
        self.now = now
        second = int(time.time())
        if second != self.second or shutting_down:
            self.second = second
            self.prepared.clear()
        for fd, result in self.engine.failed:
            self.not_sent(self.clients[fd], result)
        pending, self.pending = self.pending, []
        found = []
        for client in pending:
            client.at_once = None
            if client.next is CLOSE and not client.full:
                del self.clients[client.fd]  # the engine has closed it
            elif client.full or client.waiting or not client.receiving:
                found.append(client)
        return found

    def not_sent(self, client: Client, result: int) -> None:
        """The kernel had no room for all of a response."""
        assert client.at_once
        client.full = True
        self.requests -= 1
        if result < 0 and result != -errno.EAGAIN:  # the client is gone
            client.wait_for(CLOSE)
        else:
            rest = client.at_once.response[max(result, 0) :]
            client.send_response(rest, client.at_once.last)

    def send_prepared(self, client: Client, data: bytes) -> bool:
        """Send the response to a request like one before, if any."""
        client.kind = None
        if (
            not self.prepares or client.next is not READ
            or client.received or client.at_once or client.full
        ):  # fmt: skip
            return False
        kind = kind_of(data)
        if not kind:
            return False
        response = self.prepared.get(kind)
        if not response or response.last == client.receiving:
            client.kind = kind
            return False
        self.send_now(client, response)
        return True

    def send(self, client: Client) -> bool:
        """Send a response at once, if the client only reads."""
        if not client.only_reads():
            return False
        response = self.engine.prepare(client.unsent, client.last)
        self.send_now(client, response)
        if client.kind:  # its request was a piece of its own
            if len(self.prepared) == MOST_KINDS:
                self.prepared.clear()
            self.prepared[client.kind] = response
        return True

    def send_now(self, client: Client, response: Prepared) -> None:
        """Let the engine send, and close after the last response."""
        self.requests += 1
        client.at_once = response
        self.pending.append(client)
        self.engine.send_now(client.fd, response)
        client.responded(self.now, response.last)


@functools.lru_cache(maxsize=256)
def kind_of(head: bytes) -> Kind | None:
    """The kind of this request, if these bytes may be one.

    Clients repeat every byte, or all but the target. Whether the fields
    are well-formed is not checked here: they are if such a request has
    had a response before.
    """
    line = LINE.match(head)
    if not line or len(head) > SHORT_HEAD:
        return None
    method, target, version = line.groups()
    if b"/healthz" in target:  # its response changes with a signal
        return None
    try:
        status = status_of(method, target)
    except BadRequest:
        return None
    return method, version, status, head[line.end() :]
