"""Which request reached a host, and how often: read off its cable.

The servers write no log. But each request carries its number, and who
may open a packet socket sees it pass. A request that reached a host and
got no answer may have been executed; one that reached two (or one twice)
may have been executed twice.
"""

import re
import socket
import threading
from collections import Counter
from collections.abc import Sequence

ALL = 3  # ETH_P_ALL: every protocol, those that we send too
TCP = 6
NUMBER = re.compile(rb"GET /\?(\d+) ")
ETHERNET, IP = 14, 20  # bytes of their heads


class Tap:
    """Counts the requests that pass by."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, bytes]] = set()

    def listen(self, interface: str) -> None:
        """Take what passes by an interface, as long as we live."""
        packets = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL)
        )
        packets.bind((interface, 0))

        def listen() -> None:
            while True:
                try:
                    self.take(packets.recv(65536))
                except OSError:  # said once when the cable is pulled
                    continue

        threading.Thread(target=listen, daemon=True).start()

    def take(self, packet: bytes) -> None:
        """Note it if a request begins in it."""
        found = NUMBER.search(packet)
        if found and packet[ETHERNET + 9] == TCP:
            begin = ETHERNET + IP
            # Ports and sequence number: the same if TCP sends it again.
            self.seen.add((int(found[1]), packet[begin : begin + 8]))


def arrivals(taps: Sequence[Tap], numbers: range) -> tuple[int, int]:
    """How many of these arrived at hosts, and how many more than once."""
    times = Counter(
        number for tap in taps for number, _ in tap.seen if number in numbers
    )
    return times.total(), sum(many > 1 for many in times.values())
