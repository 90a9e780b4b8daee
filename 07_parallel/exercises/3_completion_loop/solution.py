"""Exercise 07.3: a loop that lives on completions.

Run it:     python3 server.py
The task:   task.md
"""

import socket
from argparse import Namespace

import completion_loop
import web
from completion_loop import Client


class Loop(completion_loop.Loop):
    """Each completion leads to the next operation, or to the end."""

    def received(
        self, client: Client, result: int, data: bytes
    ) -> None:
        """The client sent something, ended its side, or is gone."""
        if result < 0:
            self.close(client)
            return
        client.connection.data_received(data)
        self.resume(client)

    def finish_work(self, client: Client) -> None:
        """The wait is over: compute, and respond."""
        web.compute(self.options.compute)
        client.connection.work_done()
        self.resume(client)

    def sent(self, client: Client, result: int) -> None:
        """The kernel has so many bytes of the response."""
        if result < 0:  # the client is gone
            self.close(client)
            return
        client.connection.data_sent(result)
        self.resume(client)

    def resume(self, client: Client) -> None:
        """Ask the engine for what comes next."""
        connection = client.connection
        if connection.next is web.READ:
            self.receive(client)
        elif connection.next is web.WORK:
            client.in_flight += 1
            self.engine.sleep(client.fd, self.options.delay)
        elif connection.next is web.SEND:  # perhaps not all will go
            client.in_flight += 1
            self.engine.send(client.fd, connection.unsent)
        elif connection.next is web.LINGER:  # the last response is sent
            self.hang_up(client)
        else:
            self.close(client)

    def receive(self, client: Client) -> None:
        """Ask for what the client sends next."""
        if not client.receiving:
            client.receiving = True
            client.in_flight += 1
            self.engine.receive(client.fd)

    def hang_up(self, client: Client) -> None:
        """Close our side, and read until the client closes its own."""
        self.engine.shutdown(client.fd)
        self.receive(client)


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run the loop until a signal arrives."""
    Loop(listener, options).run()


if __name__ == "__main__":
    web.main(serve)
