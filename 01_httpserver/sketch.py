"""01: the standard library does it all, one request at a time.

Left out: all rules that http.server leaves to us, and a way to stop.
"""

import time
from http.server import BaseHTTPRequestHandler, HTTPServer

ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):  # http.server has read the request
        time.sleep(0.1)  # the work: wait for a database
        self.wfile.write(ANSWER)


listener = HTTPServer(("127.0.0.1", 8000), Handler)
listener.serve_forever()
