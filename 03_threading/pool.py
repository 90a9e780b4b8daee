"""Step 03, pool: a fixed pool of threads.

The threads are made once. The main thread puts each connection it
accepts into a queue; whichever thread is free takes the next one from
it. However many clients connect, the server's cost stays the same:
those beyond the pool's size wait in the queue.

Run it:      python3 03_threading/pool.py --workers 10
Try this:    ab -n 1000 -c 100 http://127.0.0.1:8000/
What breaks: ten clients that send nothing occupy ten threads, and the
             eleventh waits. Step 04 waits for all of them at once.
"""

from __future__ import annotations

import socket
import threading
import time
from argparse import Namespace
from queue import SimpleQueue

from accepting import accept, accept_rest, open_now, stop_reading
from web import (
    CLOSE,
    LINGER,
    RECV_SIZE,
    SEND,
    TICK,
    WORK,
    Connection,
    Parser,
    announce,
    between,
    compute,
    main,
    shutting_down,
)

Queue = SimpleQueue[socket.socket | None]  # None: there are no more


def serve(listener: socket.socket, options: Namespace) -> None:
    """Queue each connection for the pool until a signal arrives."""
    listener.settimeout(TICK)
    queue: Queue = SimpleQueue()
    pool = [
        threading.Thread(
            target=run_worker, args=(queue, options), daemon=True
        )
        for _ in range(options.workers)
    ]
    for thread in pool:
        thread.start()
    announce(listener)
    while not shutting_down:
        sock = accept(listener)
        if sock is not None:
            queue.put(sock)
    for sock in accept_rest(listener):
        queue.put(sock)
    for _ in pool:
        queue.put(None)
    stop_reading()
    for thread in pool:
        thread.join()


def run_worker(queue: Queue, options: Namespace) -> None:
    """Serve one client after the other, as step 02 does."""
    while (sock := queue.get()) is not None:
        handle_client(sock, options)


def handle_client(sock: socket.socket, options: Namespace) -> None:
    """Serve one client. Every wait blocks, but only this thread."""
    connection = Connection()
    with sock:
        try:
            while connection.next is not CLOSE:
                if connection.next is WORK:
                    if options.delay:
                        time.sleep(options.delay)
                    compute(options.compute)
                    connection.work_done()
                else:
                    wait(sock, connection)
        except OSError:  # the client is gone
            pass
        finally:
            open_now.discard(sock)


def wait(sock: socket.socket, connection: Connection) -> None:
    """Receive or send something before the deadline."""
    try:
        sock.settimeout(connection.time_left())
        if connection.next is SEND:
            connection.data_sent(sock.send(connection.unsent))
            if connection.next is LINGER:
                sock.shutdown(socket.SHUT_WR)
        else:  # it may be half a request
            connection.data_received(sock.recv(RECV_SIZE))
    except (TimeoutError, BlockingIOError):
        connection.timed_out()


def add_options(parser: Parser) -> None:
    """Let the command line choose the size of the pool."""
    parser.add_argument(
        "--workers", type=between(1, 10_000), default=10,
        help="threads (%(default)s)",
    )  # fmt: skip


if __name__ == "__main__":
    main(serve, add_options=add_options)
