"""What each field of a request and of an answer means.

The key is the side (request or answer), what it is (for a header field
its name) and, where that matters, the value; all in small letters. The
most exact key wins.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    """What to say of a field. text: Markdown; where the RFC says it."""

    label: str
    text: str
    rfc: int
    section: str


METHOD_ENDS = "One space ends it."
REASON = Meaning(
    "Reason",
    "The status in words, for people who look at the bytes. Programs go by "
    "the number alone; it may be empty. CR LF ends the status line.",
    9112, "4",
)
END_OF_HEAD = (
    "A line with nothing in it: CR LF right after the CR LF of the line "
    "before. This is how the other side knows that the head is complete: "
    "until these two bytes are there, it goes on reading."
)
CLOSE = (
    "`close`: this is the last request of this connection. The server "
    "answers it and then closes."
)

MEANINGS = {
    # The request line.
    "request method get": Meaning(
        "Method", "What to do: `GET` asks for the page. " + METHOD_ENDS,
        9110, "9.3.1",
    ),
    "request method head": Meaning(
        "Method",
        "What to do: `HEAD` asks for the head that a `GET` would get, "
        "without the page. " + METHOD_ENDS,
        9110, "9.3.2",
    ),
    "request method delete": Meaning(
        "Method",
        "What to do: `DELETE` asks to remove the page. Our servers know the "
        "method and refuse it. " + METHOD_ENDS,
        9110, "9.3.5",
    ),
    "request target /": Meaning(
        "Target",
        "Which page: the path, always with a slash first. `/` is the top. "
        "One space ends it, so a path has no spaces in it.",
        9112, "3.2.1",
    ),
    "request target": Meaning(
        "Target",
        "Which page: the path, always with a slash first. Our servers have "
        "one page only, and it is not this one.",
        9112, "3.2.1",
    ),
    "request version http/1.1": Meaning(
        "Version",
        "Which HTTP the client speaks. `1.1` also says: keep the connection "
        "open after the answer, unless one of us says otherwise. CR LF ends "
        "the request line.",
        9112, "2.3",
    ),
    "request version http/1.0": Meaning(
        "Version",
        "The older HTTP. `1.0` also says: close the connection after the "
        "answer, unless I ask you to keep it. CR LF ends the request line.",
        9112, "2.3",
    ),
    # Header fields of requests.
    "request host": Meaning(
        "Host",
        "For which site this is: one server can be many sites. Every "
        "HTTP/1.1 request must have exactly one. The port stands there "
        "because it is not 80, the usual one.",
        9110, "7.2",
    ),
    "request user-agent": Meaning(
        "User-Agent",
        "Which program asks. Our servers do not look at it.",
        9110, "10.1.5",
    ),
    "request accept": Meaning(
        "Accept",
        "Which kinds of content the client can use: `*/*` is any of them.",
        9110, "12.5.1",
    ),
    "request connection close": Meaning("Connection", CLOSE, 9112, "9.6"),
    "request connection keep-alive": Meaning(
        "Connection",
        "`Keep-Alive`: please leave the connection open. A client of "
        "HTTP/1.0 has to ask for what HTTP/1.1 does by itself; capital or "
        "small letters are the same.",
        9112, "C.2.2",
    ),
    "request end": Meaning("Empty line", END_OF_HEAD, 9112, "2.1"),
    # The status line.
    "answer version http/1.1": Meaning(
        "Version",
        "Which HTTP the server speaks: the newest of the 1.x it knows, even "
        "when the client asked with 1.0. One space ends it.",
        9112, "2.3",
    ),
    "answer version http/1.0": Meaning(
        "Version",
        "Which HTTP the server speaks. Python's `http.server` says `1.0` "
        "unless it is told otherwise. One space ends it.",
        9112, "2.3",
    ),
    "answer status 200": Meaning(
        "Status", "`200`: here is what you asked for.", 9110, "15.3.1"
    ),
    "answer status 400": Meaning(
        "Status", "`400`: this is not a request as HTTP wants it.",
        9110, "15.5.1",
    ),
    "answer status 404": Meaning(
        "Status", "`404`: there is no such page here.", 9110, "15.5.5"
    ),
    "answer status 405": Meaning(
        "Status",
        "`405`: I know this method, and this page does not allow it.",
        9110, "15.5.6",
    ),
    "answer reason": REASON,
    # Header fields of answers.
    "answer date": Meaning(
        "Date",
        "When the answer was made, always in GMT, always with as many "
        "letters. Caches need it to know how old a copy is.",
        9110, "6.6.1",
    ),
    "answer server": Meaning(
        "Server",
        "Which program answers. Only `http.server` sends it; the others "
        "have nothing to gain from it.",
        9110, "10.2.4",
    ),
    "answer content-type": Meaning(
        "Content-Type",
        "What the body is: HTML, its letters written as UTF-8. Without it "
        "a browser has to guess.",
        9110, "8.3",
    ),
    "answer content-length": Meaning(
        "Content-Length",
        "How many bytes of body follow the empty line: this is how the "
        "client knows where the answer ends while the connection stays "
        "open.",
        9110, "8.6",
    ),
    "answer allow": Meaning(
        "Allow",
        "Which methods this page allows: every 405 has to say so.",
        9110, "10.2.1",
    ),
    "answer connection close": Meaning(
        "Connection",
        "`close`: nothing follows this answer, the server closes the "
        "connection. The next request needs a new one.",
        9112, "9.6",
    ),
    "answer connection keep-alive": Meaning(
        "Connection",
        "`keep-alive`: the connection stays open, as you asked. To HTTP/1.0 "
        "the server has to say so.",
        9112, "C.2.2",
    ),
    "answer end": Meaning(
        "Empty line",
        "The head ends here, as in the request. The next byte is the first "
        "of the body, if there is one.",
        9112, "2.1",
    ),
    "answer body": Meaning(
        "Body",
        "The page itself, as many bytes as Content-Length says. Its lines "
        "end with LF alone: inside the body HTTP has no rules.",
        9112, "6",
    ),
}
