"""io_uring from the standard library: what Linux itself completes.

A system call is a visit to the kernel's counter: walk there, ask for
one thing, wait for it, walk back. io_uring is a tray at that counter.
We put notes on it ("receive from socket 7", "send this to socket 9"),
make one system call for all of them, and take the results from a second
tray. Both trays are memory that we and the kernel share, and both are
rings: an array used round and round, with a head, where the next one
is taken, and a tail, where the next one is put.

      we put                              the kernel puts
        |                                        |
        v tail                                   v tail
    .-------------------.  io_uring_enter   .-------------------.
    | submission queue  | ----------------> | completion queue  |
    | 64 bytes an entry |   the only call   | 16 bytes an entry |
    '-------------------'                   '-------------------'
        ^ head                                   ^ head
        |                                        |
      the kernel takes                        we take

An entry of the first says what to do (operation, descriptor, address,
length) and carries a number of our own, user_data. The completion has
that number again and the result: what the system call would have
returned, or minus the error number. That is the difference to
readiness: an epoll tells us that we may call recv; here the bytes have
been received already.

- Many entries, one call: the busier the server, the more requests
  share one io_uring_enter. A selector needs two or three calls each.
- Multishot: one entry, many completions. We ask once to accept, and
  once for each connection to receive; it holds until told otherwise.
- Provided buffers: we do not know whose bytes come next. Instead of a
  buffer for each connection the kernel gets a pool of them, takes one
  when bytes have come, and tells its number. We give it back at once.
- Until an operation is complete its memory belongs to the kernel, and
  its descriptor must not be closed: io_uring would work on with it.

Sources: man 7 io_uring https://man7.org/linux/man-pages/man7/
io_uring.7.html, man 2 io_uring_setup, io_uring_enter and
io_uring_register, and <linux/io_uring.h> for numbers and layouts.

Run it: python3 07_parallel/uring.py says what this system offers.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import select
import socket
import struct
import sys

from emulated import (
    ACCEPTED,
    RECEIVED,
    SENT,
    SLEPT,
    Completion,
    Prepared,
)

NOT_SENT, WRITABLE, IGNORED = 4, 5, 6  # kinds that only we see
WHAT = 0xFF  # user_data is the descriptor << 8, the operation below
STREAMED = RECEIVED | 0x80  # received by a multishot receive

# Of the submission queue; completions: four times that. New kernels
# count both as locked memory, of which all workers of a user have a few
# MiB together (ulimit -l): so no more than a batch needs.
ENTRIES = 1024
RETRY_SECONDS = 0.05  # to send to a half-closed client, see below
BUFFERS = 1024  # in the pool for what is received; a power of two
BUFFER_SIZE = 16 * 1024  # bytes: any whole head fits into one
POOL = 0  # the number of our pool of buffers

# System calls have these numbers on nearly every processor.
SETUP, ENTER, REGISTER = 425, 426, 427

# Operations, as in enum io_uring_op.
OP_POLL, OP_SENDMSG, OP_TIMEOUT, OP_ACCEPT = 6, 9, 11, 13
OP_CANCEL = 14
OP_CLOSE, OP_SEND, OP_RECV = 19, 26, 27

# Flags of a submission entry.
BUFFER_SELECT = 1 << 5  # take a buffer from the pool
QUIET = 1 << 6  # no completion if it succeeds
MULTISHOT_ACCEPT, MULTISHOT_RECV = 1 << 0, 1 << 1
CANCEL_ALL, CANCEL_FD = 1 << 0, 1 << 1

# Flags of a send, in Linux's numbers, so that this file can be read by
# every Python: no SIGPIPE, and fail if that is not possible at once
# (SOME: if nothing is, ALL: if not all is). With MSG_MORE the data wait
# for more, or for the end of the connection: see send_last.
MSG_DONTWAIT, MSG_WAITALL = 0x40, 0x100
MSG_NOSIGNAL, MSG_MORE = 0x4000, 0x8000
SOME = MSG_NOSIGNAL | MSG_DONTWAIT
ALL = SOME | MSG_WAITALL
LAST = ALL | MSG_MORE

# Flags of a completion.
HAS_BUFFER, MORE = 1 << 0, 1 << 1

# Flags of io_uring_setup, and the first kernel that knows them.
CQSIZE = 1 << 3  # 5.5: we choose the size of the completion queue
SUBMIT_ALL = 1 << 7  # 5.18: a bad entry does not stop the others
COOP_TASKRUN = 1 << 8  # 5.19: do not interrupt us for completions
SINGLE_ISSUER = 1 << 12  # 6.0: one thread submits
DEFER_TASKRUN = 1 << 13  # 6.1: complete only when we enter
NO_SQARRAY = 1 << 16  # 6.6: entries are taken in order

# Completions made inside our own io_uring_enter (DEFER_TASKRUN) need
# no locks and no memory barriers: it writes only when we enter.
FLAGS = (
    SINGLE_ISSUER | DEFER_TASKRUN | NO_SQARRAY,
    SINGLE_ISSUER | DEFER_TASKRUN,
    SINGLE_ISSUER | COOP_TASKRUN,
    COOP_TASKRUN,
)

# struct io_uring_sqe, its first 42 bytes: opcode, flags, ioprio, fd,
# off, addr, len, the operation's own flags, user_data, buffer pool.
# The other 22 stay zero.
ENTRY = struct.Struct("=BBHiQQIIqH")
COMPLETION = struct.Struct("=qiI")  # user_data, result, flags
TAIL = struct.Struct("=H")  # of the ring of buffers
BUFFER = struct.Struct("=QIH")  # struct io_uring_buf: addr, len, bid
MESSAGE = struct.Struct("=QIIQQQQI4x")  # struct msghdr
PIECES = struct.Struct("=QQQQ")  # two struct iovec: address, length
TIME = struct.Struct("=qq")  # struct __kernel_timespec

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = [ctypes.c_long] * 7


class Unavailable(Exception):
    """There is no io_uring here; the text says why, in a sentence."""


def system_call(
    number: int, a: int, b: int, c: int = 0, d: int = 0, e: int = 0,
    f: int = 0,
) -> int:  # fmt: skip
    """A system call that has no function in the standard library.

    Raises OSError.
    """
    result: int = libc.syscall(number, a, b, c, d, e, f)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


class Ring:
    """The two queues in shared memory."""

    def __init__(self, flags: int, entries: int = ENTRIES) -> None:
        self.fd = -1
        # struct io_uring_params, 120 bytes: we fill in the beginning,
        # the kernel the rest: sizes, and what is at which offset.
        params = bytearray(120)
        struct.pack_into(
            "=III", params, 0, entries, entries * 4,
            flags | CQSIZE | SUBMIT_ALL,
        )  # fmt: skip
        self.fd = system_call(SETUP, entries, address(params))
        os.set_inheritable(self.fd, False)
        self.flags = flags
        self.entries, completions = struct.unpack_from("=II", params)
        submit = struct.unpack_from("=10I", params, 40)
        complete = struct.unpack_from("=10I", params, 80)
        size = complete[5] + completions * COMPLETION.size
        if not flags & NO_SQARRAY:
            size = max(size, submit[6] + self.entries * 4)
        self.memory = self.map(size, 0)
        self.slots = self.map(self.entries * 64, 0x1000_0000)
        self.bytes = memoryview(self.memory)
        self.words = self.bytes[: size & ~3].cast("I")
        if not flags & NO_SQARRAY:
            # Older kernels look up in an array which entry is next.
            for index in range(self.entries):
                self.words[submit[6] // 4 + index] = index
        self.submit_tail = submit[1] // 4
        self.head, self.tail = complete[0] // 4, complete[1] // 4
        self.completions = complete[5]  # offset of the first of them
        self.completion_mask = completions - 1
        self.mask = self.entries - 1  # a power of two
        self.put = 0  # entries we have put into the queue so far
        self.taken = 0  # entries the kernel has taken so far

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def map(self, size: int, offset: int) -> mmap.mmap:
        """Memory of the ring (MAP_SHARED | MAP_POPULATE)."""
        return mmap.mmap(self.fd, size, 0x8001, offset=offset)

    def reserve(self, number: int) -> None:
        """Make room for this number of entries in the queue."""
        while self.put - self.taken > self.entries - number:
            self.enter(0)

    def enter(self, wait: int) -> None:
        """Submit what we have put; wait for this many completions."""
        self.words[self.submit_tail] = self.put & 0xFFFFFFFF
        while True:
            try:
                self.taken += system_call(
                    ENTER, self.fd, self.put - self.taken, wait, 1
                )
            except InterruptedError:  # a signal: wait again
                continue
            except OSError as error:
                # Too many completions wait for us, or no memory for a
                # moment: take some, then go on.
                if error.errno not in (errno.EBUSY, errno.EAGAIN):
                    raise
            return

    def take(self) -> list[tuple[int, int, int]]:
        """Take all completions: (user_data, result, flags) each."""
        head, tail = self.words[self.head], self.words[self.tail]
        first = head & self.completion_mask
        last = first + ((tail - head) & 0xFFFFFFFF)
        size = self.completion_mask + 1
        taken = self.unpack(first, min(last, size))
        if last > size:  # around the end of the ring
            taken += self.unpack(0, last - size)
        self.words[self.head] = tail
        return taken

    def unpack(
        self, first: int, last: int
    ) -> list[tuple[int, int, int]]:
        """The completions in slots first to last (not included)."""
        start = self.completions + first * COMPLETION.size
        end = self.completions + last * COMPLETION.size
        return list(COMPLETION.iter_unpack(self.bytes[start:end]))

    def register(
        self, what: int, argument: bytearray, number: int
    ) -> None:
        """Register something that the kernel keeps using."""
        system_call(REGISTER, self.fd, what, address(argument), number)


class Buffers:
    """The pool of buffers that the kernel receives into.

    It is a ring as well: we put the numbers of free buffers in at its
    tail, the kernel takes them out at its head.
    """

    def __init__(self, ring: Ring) -> None:
        self.memory = mmap.mmap(-1, BUFFERS * BUFFER_SIZE)
        self.start = address(self.memory)
        self.slots = mmap.mmap(-1, BUFFERS * 16)
        self.numbers = [-1] * BUFFERS  # which buffer is in which slot
        self.tail = 0
        self.give_back(list(range(BUFFERS)))
        register = bytearray(40)  # struct io_uring_buf_reg
        struct.pack_into(
            "=QIH", register, 0, address(self.slots), BUFFERS, POOL
        )
        ring.register(22, register, 1)  # IORING_REGISTER_PBUF_RING

    def give_back(self, used: list[int]) -> None:
        """Put buffers in, and let the kernel see them.

        It takes them in order and we give them back in that order: so
        nearly always a buffer returns to its old slot, where its
        number still stands, and there is only the tail to be moved.
        """
        slot = self.tail & (BUFFERS - 1)
        if used != self.numbers[slot : slot + len(used)]:
            for number in used:
                self.write(slot, number)
                slot = (slot + 1) & (BUFFERS - 1)
        self.tail += len(used)
        TAIL.pack_into(self.slots, 14, self.tail & 0xFFFF)

    def write(self, slot: int, number: int) -> None:
        """Write a buffer's address, size and number into a slot."""
        # A slot has 16 bytes, but the last 2 of the first one hold
        # the ring's tail: so we write 14.
        at = self.start + number * BUFFER_SIZE
        BUFFER.pack_into(self.slots, slot * 16, at, BUFFER_SIZE, number)
        self.numbers[slot] = number


class Engine:
    """Operations in, completions out: see emulated.py for each."""

    name = "uring"

    def __init__(self) -> None:
        """Raises as open_ring does."""
        self.ring, self.buffers = open_ring()
        self.can_stream = True  # until the kernel reports it cannot
        self.sockets: dict[int, socket.socket] = {}
        self.done: list[Completion] = []  # what wait will begin with
        # Sends in flight: operation, address, size, and the memory
        # that the kernel reads from, which must not be freed.
        self.sending: dict[int, tuple[int, int, int, object]] = {}
        self.cancelled: set[int] = set()  # those that shall end
        self.sending_now: list[object] = []
        self.failing: list[tuple[int, int]] = []
        self.failed: list[tuple[int, int]] = []  # of send_now
        self.times = bytearray(ENTRIES * TIME.size)
        self.times_at = address(self.times)

    def put(
        self, code: int, fd: int, what: int, at: int = 0, size: int = 0,
        own: int = 0, flags: int = 0, priority: int = 0,
    ) -> None:  # fmt: skip
        """Put an entry into the submission queue."""
        ring = self.ring
        put = ring.put
        if put - ring.taken == ring.entries:
            ring.reserve(1)
        ENTRY.pack_into(
            ring.slots, (put & ring.mask) << 6, code, flags, priority,
            fd, 0, at, size, own, fd << 8 | what, POOL,
        )  # fmt: skip
        ring.put = put + 1

    def adopt(self, sock: socket.socket) -> None:
        """Take over a socket that did not come from accept."""
        # Non-blocking would mean: EAGAIN instead of waiting.
        sock.setblocking(True)
        self.sockets[sock.fileno()] = sock

    def accept(self, fd: int) -> None:
        """Accept connections until an error; each is a completion."""
        self.put(
            OP_ACCEPT, fd, ACCEPTED, own=socket.SOCK_CLOEXEC,
            priority=MULTISHOT_ACCEPT,
        )  # fmt: skip

    def receive(self, fd: int, stream: bool = False) -> None:
        """Receive what arrives next; as a stream, all that arrives."""
        if stream and self.can_stream:
            self.put(
                OP_RECV, fd, STREAMED, 0, 0, 0, BUFFER_SELECT,
                MULTISHOT_RECV,
            )  # fmt: skip
        else:
            self.put(
                OP_RECV, fd, RECEIVED, 0, BUFFER_SIZE, 0, BUFFER_SELECT
            )

    def send(self, fd: int, data: bytes) -> None:
        """Send data, or the beginning of it."""
        pinned = pin(data)
        self.sending[fd] = OP_SEND, pinned[1], len(data), pinned
        self.send_some(fd)

    def send_some(self, fd: int) -> None:
        """Let the kernel take what it has room for.

        We ask it not to wait, and poll if there is no room. It could
        wait by itself, but from a client that has ended its side it
        would do so in a thread of its own, one for each such client.
        """
        code, at, size, _ = self.sending[fd]
        self.put(code, fd, SENT, at, size, SOME)

    def prepare(self, response: bytes, last: bool) -> Prepared:
        """A response with the address that the kernel asks for."""
        return Prepared(response, last, pin(response)[1])

    def send_now(self, fd: int, ready: Prepared) -> None:
        """Send a whole response at once, and close after the last.

        This has a completion only if the kernel cannot take all of it:
        then the next wait puts (fd, result) into failed.
        """
        if ready.last:
            self.send_last(fd, ready)
            return
        self.sending_now.append(ready)
        size = len(ready.response)
        self.put(OP_SEND, fd, NOT_SENT, ready.address, size, ALL, QUIET)

    def send_last(self, fd: int, ready: Prepared) -> None:
        """Send a response and the end in one segment, and close.

        The response waits for more, and shutdown sends both. A close
        alone would do so too, but not if it finds unread bytes: then
        it throws away what still waits. The kernel hands a shutdown
        that is an entry to a thread of its own, so that and what has
        to come before it are plain system calls.
        """
        size = len(ready.response)
        sent = libc.send(fd, ready.response, size, LAST)
        if sent == size:
            self.shutdown(fd)
            self.put(OP_CLOSE, fd, IGNORED, flags=QUIET)
        else:
            result = sent if sent > 0 else -ctypes.get_errno()
            self.failing.append((fd, result))

    def send_file(
        self, fd: int, head: bytes, file: mmap.mmap, start: int,
        size: int,
    ) -> None:  # fmt: skip
        """Send head and a part of a file, or the beginning of them.

        The file is mapped: the kernel copies from its own cache of the
        file to the connection, and the bytes never pass through us.
        """
        pinned = pin(head)
        message = bytearray(MESSAGE.size + PIECES.size)
        at = address(message)
        pieces = at + MESSAGE.size
        MESSAGE.pack_into(message, 0, 0, 0, 0, pieces, 2, 0, 0, 0)
        PIECES.pack_into(
            message, MESSAGE.size, pinned[1], len(head),
            address(file) + start, size,
        )  # fmt: skip
        memory = message, pinned, file
        self.sending[fd] = OP_SENDMSG, at, 1, memory
        self.send_some(fd)

    def sleep(self, fd: int, seconds: float) -> None:
        """Complete after this many seconds."""
        self.set_timer(fd, SLEPT, seconds)

    def set_timer(self, fd: int, what: int, seconds: float) -> None:
        """An operation that does nothing but take this long."""
        self.ring.reserve(1)
        here = (self.ring.put & self.ring.mask) * TIME.size
        whole = int(seconds)
        rest = int((seconds - whole) * 1e9)
        TIME.pack_into(self.times, here, whole, rest)
        self.put(OP_TIMEOUT, fd, what, self.times_at + here, 1)

    def stop_accepting(self, fd: int) -> None:
        """Accept the connections already queued, then no more."""
        listener = self.sockets[fd]
        listener.setblocking(False)
        while True:
            try:
                new = listener.accept()[0].detach()
            except OSError:  # the queue is empty
                break
            self.done.append((ACCEPTED, fd, new, b"", True))
        self.cancel(fd)

    def shutdown(self, fd: int) -> None:
        """Close our side; the client reads the response to its end."""
        libc.shutdown(fd, socket.SHUT_WR)

    def pause(self, fd: int) -> None:
        """End a stream; other operations stay in flight."""
        self.put(
            OP_CANCEL, -1, IGNORED, at=fd << 8 | STREAMED, flags=QUIET
        )

    def cancel(self, fd: int) -> None:
        """End what is in flight, but not a sleep: it ends by itself."""
        if fd in self.sending:
            self.cancelled.add(fd)
        own = CANCEL_ALL | CANCEL_FD
        self.put(OP_CANCEL, fd, IGNORED, own=own, flags=QUIET)

    def close(self, fd: int) -> None:
        """Close a socket that has nothing in flight."""
        if fd in self.sockets:
            self.sockets.pop(fd).close()
            return
        self.put(OP_CLOSE, fd, IGNORED, flags=QUIET)

    def wait(self, block: bool = True) -> list[Completion]:
        """Take all completions; if block, wait for the first."""
        ring = self.ring
        ring.enter(1 if block and not self.failing else 0)
        self.sending_now.clear()
        self.failed, self.failing = self.failing, []
        done, self.done = self.done, []
        used: list[int] = []  # buffers, in order
        memory = self.buffers.memory
        for user_data, result, flags in ring.take():
            fd, what = user_data >> 8, user_data & WHAT
            if flags & HAS_BUFFER:
                number = flags >> 16
                used.append(number)
                start = number * BUFFER_SIZE
                data = memory[start : start + result]
                more = flags & MORE != 0
                done.append((RECEIVED, fd, result, data, more))
            elif what == ACCEPTED:
                more = flags & MORE != 0
                done.append((ACCEPTED, fd, result, b"", more))
            elif what in (SENT, WRITABLE):
                if fd in self.cancelled and result < 0:
                    result = -errno.ECANCELED
                elif self.has_to_send_again(fd, what, result):
                    continue
                self.cancelled.discard(fd)
                del self.sending[fd]
                done.append((SENT, fd, result, b"", False))
            elif what == NOT_SENT:
                self.failed.append((fd, result))
            elif what in (RECEIVED, STREAMED):
                if result == -errno.ENOBUFS:  # the pool was empty
                    result = -errno.ECANCELED
                elif result == -errno.EINVAL and what == STREAMED:
                    self.can_stream = False  # before Linux 6.0
                    result = -errno.ECANCELED
                done.append((RECEIVED, fd, result, b"", False))
            elif what == SLEPT:
                # The kernel calls it an error, ETIME, that it is time.
                done.append((SLEPT, fd, 0, b"", False))
        self.buffers.give_back(used)
        return done

    def has_to_send_again(
        self, fd: int, what: int, result: int
    ) -> bool:
        """Is a send not over yet, because there was no room for it?"""
        if what == SENT and result == -errno.EAGAIN:
            self.put(OP_POLL, fd, WRITABLE, own=select.POLLOUT)
        elif what == WRITABLE and (
            result == -errno.ETIME or result & select.POLLOUT
        ):
            self.send_some(fd)
        elif what == WRITABLE:
            # The client has ended its side: that ends every poll, with
            # and without room. So look again a little later.
            self.set_timer(fd, WRITABLE, RETRY_SECONDS)
        else:
            return False
        return True


def open_ring() -> tuple[Ring, Buffers]:
    """A ring with the best flags this kernel takes, and its buffers.

    Raises Unavailable where there is no io_uring, OSError if there is
    but we cannot have a ring (no memory, no descriptors).
    """
    if sys.platform != "linux" or sys.maxsize < 2**32:
        raise Unavailable("io_uring is a part of 64-bit Linux")
    for flags in FLAGS:
        try:
            ring = Ring(flags)
            ring.enter(0)
            return ring, Buffers(ring)
        except OSError as error:
            if error.errno == errno.ENOSYS:
                why = "this kernel, or what runs it, has no io_uring"
                raise Unavailable(why) from None
            if error.errno in (errno.EPERM, errno.EACCES):
                why = "io_uring is forbidden here"
                raise Unavailable(why) from None
            if error.errno == errno.ENOMEM:
                error.strerror = "no memory for a ring (see ulimit -l)"
            if error.errno != errno.EINVAL:
                raise
    raise Unavailable("io_uring is older than Linux 5.19 here")


def address(memory: bytearray | mmap.mmap) -> int:
    """Where memory that we may write begins; it must stay alive."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


@functools.lru_cache(maxsize=64)
def pin(data: bytes) -> tuple[bytes, int]:
    """These bytes and their address. Keep the pair: it keeps them.

    Responses of a second are mostly the same object: so, the cache.
    """
    text = ctypes.c_char_p(data)
    return data, ctypes.cast(text, ctypes.c_void_p).value or 0


def main() -> None:
    """Print what this system offers; status 1 if it is too little."""
    try:
        engine = Engine()
    except Unavailable as reason:
        sys.exit(f"no: {reason}")
    except OSError as error:
        sys.exit(f"io_uring is here, but: {error.strerror}")
    names = {
        SINGLE_ISSUER: "SINGLE_ISSUER (6.0)",
        COOP_TASKRUN: "COOP_TASKRUN (5.19)",
        DEFER_TASKRUN: "DEFER_TASKRUN (6.1)",
        NO_SQARRAY: "NO_SQARRAY (6.6)",
    }
    flags = [
        name for bit, name in names.items() if engine.ring.flags & bit
    ]
    print(
        f"yes: io_uring with {', '.join(flags)}, "
        f"{engine.ring.entries} entries, {BUFFERS} buffers"
    )


if __name__ == "__main__":
    main()
