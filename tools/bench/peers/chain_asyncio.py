"""The numbered pages on asyncio's streams."""

import asyncio

from tools.bench.peers.number import BACKLOG, END, address, response


async def talk(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the request of one connection."""
    try:
        writer.write(response(await reader.readuntil(END)))
        writer.close()
        await writer.wait_closed()
    except (OSError, asyncio.IncompleteReadError):
        writer.close()  # the client is gone


async def main() -> None:
    """Accept until a signal ends the process."""
    server = await asyncio.start_server(talk, *address(), backlog=BACKLOG)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
