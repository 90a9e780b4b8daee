"""06: asyncio has the loop and the timers; the code reads like 02.

Left out: requests in pieces, errors, time-outs, a way to stop.
"""

import asyncio

ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


async def talk(reader, writer):
    await reader.read(4096)  # the request
    await asyncio.sleep(0.1)  # the work: the others run meanwhile
    writer.write(ANSWER)
    writer.close()


async def main():
    listener = await asyncio.start_server(talk, "127.0.0.1", 8000)
    await listener.serve_forever()


asyncio.run(main())
