"""Lab: a database instead of a sleep.

Five servers that ask PostgreSQL. Each is one of ours, unchanged: when
it has read a request, a handler asks the database, and then the server
responds as ever. If the database fails, the response is a 503 that says
why. What is asked stands behind the question mark of the path.

Run it:     ./bench.sh labs database, which starts a database as well.
            With one of your own, where CONNINFO says where it is:
            .venv-peers/bin/python labs/database/lab.py 06-async
                --connections 10 --database CONNINFO
Try this:   curl 'http://127.0.0.1:8000/?sleep'
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

try:
    import psycopg  # type: ignore[import-not-found,unused-ignore]
    import psycopg_pool  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    sys.exit(
        "lab.py needs psycopg: ./bench.sh labs database puts it into "
        ".venv-peers"
    )

QUERIES = {
    "sleep": "select pg_sleep(0.1)",
    "slow": "select pg_sleep(2)",
    # One row of the 100,000, found by the index.
    "lookup": """
        select name, price from items
        where id = (select 1 + floor(random() * 100000)::int)""",
    # The same index, then something to compute: 10,000 rows each.
    "report": """
        select count(*), avg(price), max(md5(name)) from items,
            (select floor(random() * 90000)::int as first) as start
        where id > first and id <= first + 10000""",
    "write": "update items set price = price + 1 where id = 1",
}
Connect = Callable[[], Any]  # gives a connection to a with statement


# === The handlers ===================================================


def thread(connect: Connect, query: str) -> None:
    """03, 03-pool: the client's own thread waits for the answer."""
    with connect() as database:
        database.execute(query)


async def blocking(connect: Connect, query: str) -> None:
    """06-blocking, the mistake: nothing here is awaited."""
    with connect() as database:
        database.execute(query)


async def executor(connect: Connect, query: str) -> None:
    """06-executor: a thread of its own waits, the loop goes on."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, thread, connect, query)


async def awaiting(connect: Connect, query: str) -> None:
    """06-async: a driver that gives the loop back while it waits."""
    async with connect() as database:
        await database.execute(query)


# === Into our servers ===============================================
# Each calls its own wait until a request is complete; we put ourselves
# in its place, and ask the database when it has come so far.


def in_threads(server: Any, connections: int, where: str) -> None:
    """Let a server of step 03 ask, in the thread of each client."""
    connect, wait = source(connections, where), server.wait

    def wait_and_ask(sock: Any, connection: Any) -> None:
        wait(sock, connection)
        if connection.next is server.WORK:
            try:
                thread(connect, asked(connection))
            except psycopg.Error as error:
                respond(connection, error)

    server.wait = wait_and_ask


def in_loop(
    handler: Callable[[Connect, str], Awaitable[None]]
) -> Callable[[Any, int, str], None]:
    """The same for the coroutines of step 06, with this handler."""

    def put_into(server: Any, connections: int, where: str) -> None:
        start, wait = server.start, server.wait
        connect: Connect

        async def open_and_start(*words: Any) -> Any:
            nonlocal connect
            threads = ThreadPoolExecutor(connections or None)
            asyncio.get_running_loop().set_default_executor(threads)
            if handler is awaiting:
                connect = await async_source(connections, where)
            else:
                connect = source(connections, where)
            return await start(*words)

        async def wait_and_ask(
            reader: Any, writer: Any, connection: Any
        ) -> None:
            await wait(reader, writer, connection)
            if connection.next is server.WORK:
                try:
                    await handler(connect, asked(connection))
                except psycopg.Error as error:
                    respond(connection, error)

        server.start, server.wait = open_and_start, wait_and_ask

    return put_into


def asked(connection: Any) -> str:
    """The query that a request names, as in /?lookup."""
    name = connection.request.target.partition(b"?")[2].decode()
    return QUERIES.get(name, QUERIES["sleep"])


def respond(connection: Any, error: Exception) -> None:
    """Respond with the error of the database."""
    web: Any = importlib.import_module("web")
    lines = str(error).strip().splitlines() or [type(error).__name__]
    why = lines[0].rpartition("FATAL:")[2].strip()
    error_503 = web.BadRequest(503, why)
    response = web.error_response(error_503)
    connection.send_response(response, last=True)


# === Connections ====================================================


def source(connections: int, where: str) -> Connect:
    """Where a blocking handler gets its connection; 0: a new one."""
    if not connections:
        return lambda: psycopg.connect(where, autocommit=True)
    pool = psycopg_pool.ConnectionPool(
        where, kwargs={"autocommit": True}, open=True,
        min_size=connections, max_size=connections,
    )  # fmt: skip
    pool.wait()
    return pool.connection  # type: ignore[no-any-return,unused-ignore]


async def async_source(connections: int, where: str) -> Connect:
    """The same for those who await."""
    if not connections:
        return lambda: new(where)
    pool = psycopg_pool.AsyncConnectionPool(
        where, kwargs={"autocommit": True}, open=False,
        min_size=connections, max_size=connections,
    )  # fmt: skip
    await pool.open(wait=True)
    return pool.connection  # type: ignore[no-any-return,unused-ignore]


@asynccontextmanager
async def new(where: str) -> AsyncIterator[Any]:
    """A connection for one request."""
    connecting = psycopg.AsyncConnection.connect(where, autocommit=True)
    async with await connecting as database:
        yield database


# === Command line ===================================================

ROOT = Path(__file__).resolve().parents[2]
HANDLERS = {  # name -> the server, and how the handler comes into it
    "03": ("03_threading/server.py", in_threads),
    "03-pool": ("03_threading/pool.py", in_threads),
    "06-blocking": ("06_asyncio/server.py", in_loop(blocking)),
    "06-executor": ("06_asyncio/server.py", in_loop(executor)),
    "06-async": ("06_asyncio/server.py", in_loop(awaiting)),
}


def load(path: Path) -> Any:
    """A server's file as a module."""
    # It imports the web.py beside it.
    sys.path.insert(0, str(path.parent))
    return importlib.import_module(path.stem)


def main() -> None:
    """Start the server that the first word names."""
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in HANDLERS:
        print(
            f"lab.py: name one of {', '.join(HANDLERS)} first",
            file=sys.stderr,
        )
        sys.exit(2)
    file, put_into = HANDLERS[name]
    server = load(ROOT / file)
    web: Any = importlib.import_module("web")

    def add_options(parser: Any) -> None:
        if hasattr(server, "add_options"):
            server.add_options(parser)
        parser.add_argument(
            "--connections", type=web.between(0, 10_000), default=10,
            help="in the pool; 0: one for each request (%(default)s)",
        )  # fmt: skip
        parser.add_argument(
            "--database", metavar="CONNINFO", default="",
            help="where it is, as libpq wants it: 'host=... user=...'",
        )

    def serve(listener: Any, options: Any) -> None:
        options.delay = 0  # the database takes its time
        try:
            put_into(server, options.connections, options.database)
            server.serve(listener, options)
        except psycopg.Error as error:
            sys.exit(f"lab.py: {error}")

    web.main(serve, add_options=add_options)


if __name__ == "__main__":
    main()
