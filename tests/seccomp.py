"""A system that forbids a system call, as containers do.

    python tests/seccomp.py EPERM 425 -- python3 server.py

runs a command in which this call fails with this error. 425 is
io_uring_setup on every processor; who is not root may do this too.
See man 2 seccomp.
"""

import ctypes
import errno
import os
import struct
import sys
from typing import NoReturn

IO_URING_SETUP, IO_URING_ENTER, IO_URING_REGISTER = 425, 426, 427

NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2  # <linux/prctl.h>
ALLOW, ERROR = 0x7FFF_0000, 0x0005_0000  # SECCOMP_RET_ALLOW, _ERRNO
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # <linux/bpf_common.h>
INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter


def forbid(call: int, error: int) -> None:
    """Let this call fail from now on, here and in all children.

    Raises OSError where there is no seccomp.
    """
    # The first word of struct seccomp_data is the call's number.
    program = b"".join([
        INSTRUCTION.pack(LOAD, 0, 0, 0),
        INSTRUCTION.pack(JUMP_IF_EQUAL, 0, 1, call),
        INSTRUCTION.pack(RETURN, 0, 0, ERROR | error),
        INSTRUCTION.pack(RETURN, 0, 0, ALLOW),
    ])
    kept = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, where they are.
    filters = struct.pack(
        "@HP", len(program) // INSTRUCTION.size, ctypes.addressof(kept)
    )
    control = ctypes.CDLL(None, use_errno=True).prctl
    control.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p,
                        ctypes.c_ulong, ctypes.c_ulong]  # fmt: skip
    for arguments in (
        (NO_NEW_PRIVILEGES, 1, None, 0, 0),
        (SET_SECCOMP, FILTER, filters, 0, 0),
    ):
        if control(*arguments) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))


def main(arguments: list[str]) -> NoReturn:
    """Forbid, then become the command."""
    if len(arguments) < 4 or arguments[2] != "--":
        sys.exit("usage: seccomp.py ERROR CALL -- COMMAND ...")
    name, call, _, *command = arguments
    forbid(int(call), getattr(errno, name))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
