"""A client of a worker: a connection, and its operations."""

from __future__ import annotations

import math

import emulated
import uring
from emulated import Prepared
from files import Transfer
from web import CLOSE, IDLE_SECONDS, LINGER, READ, Connection

Engine = emulated.Engine | uring.Engine
# All that a response depends on: method, version, status, fields.
Kind = tuple[bytes, bytes, int, bytes]


class Client(Connection):
    """A connection, and what the engine has in flight for it."""

    in_flight = 0  # operations that are not complete
    receiving = False  # is one of them a receive?
    cancelled = False  # shall all of them end?
    waiting: tuple[bytes, ...] = ()  # pieces yet to be handled
    kind: Kind | None = None  # of the piece just received
    at_once: Prepared | None = None  # sent in this batch, completely?
    full = False  # no: the kernel had no room for it
    transfer: Transfer | None = None  # a file that is being sent

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd = fd

    def handle_waiting(self) -> None:
        """Take the pieces that arrived before their turn."""
        while self.waiting and self.next in (READ, LINGER):
            piece, *rest = self.waiting
            self.waiting = tuple(rest)
            self.data_received(piece)

    def send_part(self, engine: Engine) -> None:
        """Submit a send; its completion has how much was sent."""
        self.in_flight += 1
        if self.transfer:
            engine.send_file(self.fd, *self.transfer.part())
        else:
            engine.send(self.fd, self.unsent)

    def only_reads(self) -> bool:
        """Does the client wait for nothing but our response?"""
        if self.received or self.waiting or self.ended:
            return False
        if self.full or self.transfer:
            return False
        closes = self.request is not None and self.request.closes
        return not self.last or (closes and not self.receiving)

    def responded(self, now: float, last: bool) -> None:
        """The whole response was sent at once."""
        self.next = CLOSE if last else READ
        self.deadline = math.inf if last else now + IDLE_SECONDS

    def check_progress(self) -> None:
        """Twice a second: a page is too short to look closer."""
