"""Which requests reached a host: read off its cable.

The servers write no log. But each request carries its number, and a
packet socket sees it pass. What was lost and arrived nowhere may always be
sent again. What arrived may have been executed: it may be sent again only
if twice does no harm, as with GET.
"""

import re
import socket
import threading
from collections.abc import Sequence

from labs.hosts.load import OK, Row

ALL = 3  # ETH_P_ALL: every protocol, those that we send too
TCP = 6
NUMBER = re.compile(rb"GET /\?(\d+) ")
PROTOCOL = 14 + 9  # its place in a packet: Ethernet's head has 14 bytes
PEERS, PLACE = slice(26, 38), slice(38, 42)  # addresses, ports; sequence

# Why a request was lost.
UNSENT = "cause_unsent"  # arrived nowhere: refused, or no host was up
NEW = "cause_new"  # a new connection ended without a response
KEPT = "cause_kept"  # a kept connection was closed as it arrived
HUNG = "cause_hung"  # arrived, and nothing happened until somebody gave up
HUNG_SECONDS = 1.5


class Tap:
    """Notes the requests that pass by.

    seen: number of a request -> for each time that it arrived, whether
    that was on a connection that had been used before.
    """

    def __init__(self) -> None:
        self.seen: dict[int, list[bool]] = {}
        self._last: dict[bytes, bytes] = {}  # connection -> its last place

    def listen(self, interface: str) -> None:
        """Take what passes by an interface, as long as the program runs."""
        packets = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL)
        )
        packets.bind((interface, 0))

        def listen() -> None:
            while True:
                try:
                    self.take(packets.recv(65536))
                except OSError:  # raised once when the cable is pulled
                    continue

        threading.Thread(target=listen, daemon=True).start()

    def take(self, packet: bytes) -> None:
        """Note the request that begins in a packet, if one does."""
        found = NUMBER.search(packet)
        if not found or packet[PROTOCOL] != TCP:
            return
        connection, place = packet[PEERS], packet[PLACE]
        last = self._last.get(connection)
        if last != place:  # else TCP has sent it again
            arrivals = self.seen.setdefault(int(found[1]), [])
            arrivals.append(last is not None)
            self._last[connection] = place

    def figures(self, rows: Sequence[Row], first: int) -> dict[str, float]:
        """How many arrived and how many twice; why they were lost.

        rows: what became of requests; first: the number of the first.
        """
        names = ("arrived", "twice", UNSENT, NEW, KEPT, HUNG)
        found = dict.fromkeys(names, 0.0)
        for number, (_, seconds, outcome) in enumerate(rows, first):
            kept = self.seen.get(number, [])
            found["arrived"] += len(kept)
            found["twice"] += len(kept) > 1
            if outcome != OK:
                hung = HUNG if seconds > HUNG_SECONDS else ""
                why = hung or (KEPT if any(kept) else NEW)
                found[why if kept else UNSENT] += 1
        return found
