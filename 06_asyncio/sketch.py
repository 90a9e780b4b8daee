"""06: asyncio has the loop and the timers; the code reads like 02.

Left out: requests in pieces, errors, timeouts, a clean shutdown.
"""

import asyncio

RESPONSE = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


async def handle_client(reader, writer):
    await reader.read(4096)  # the request
    await asyncio.sleep(0.1)  # other coroutines run in the meantime
    writer.write(RESPONSE)
    writer.close()


async def main():
    server = await asyncio.start_server(
        handle_client, "127.0.0.1", 8000
    )
    await server.serve_forever()


asyncio.run(main())
