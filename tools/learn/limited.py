"""Becomes a student's program, with limits and without rights.

    python -IS limited.py PLAN COMMAND...

PLAN is JSON: `home`, its folder; `uid`, the user to become (0: stay);
`limits`, as `setrlimit` calls them. It uses nothing but the standard
library: the program's interpreter has none of our packages.
"""

import contextlib
import ctypes
import json
import os
import resource
import sys
from pathlib import Path

KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SEVEN_EXAMINED")
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38  # <linux/prctl.h>
KEYCTL = {"x86_64": 250, "aarch64": 219}  # from <asm/unistd.h>
KEYCTL_JOIN_SESSION_KEYRING = 1  # from <linux/keyctl.h>


def main() -> None:
    """Do what the plan says, then become the command."""
    plan = json.loads(sys.argv[1])
    command = sys.argv[2:]
    environment = {k: v for k, v in os.environ.items() if k in KEPT}
    environment |= {"HOME": plan["home"], "TMPDIR": plan["home"]}
    with contextlib.suppress(PermissionError):  # it has its own already
        os.setsid()
    for name, most in plan["limits"].items():
        limit(getattr(resource, name), most)
    with contextlib.suppress(OSError):  # who has to go if memory runs out
        Path("/proc/self/oom_score_adj").write_text("1000")
    if plan["uid"]:
        os.setgroups([])
        os.setgid(plan["uid"])
        os.setuid(plan["uid"])
    if sys.platform == "linux":
        kernel = ctypes.CDLL(None)
        if call := KEYCTL.get(os.uname().machine):  # not our passwords
            kernel.syscall(call, KEYCTL_JOIN_SESSION_KEYRING, None)
        # whose parent has ended stays our child, and is measured as well
        kernel.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # sudo and its like give no rights any more
        kernel.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.chdir(plan["home"])
    os.execvpe(command[0], command, environment)


def limit(what: int, most: int) -> None:
    """Lower a limit for good; a lower one stays as it is."""
    least = [
        most if now == resource.RLIM_INFINITY else min(now, most)
        for now in resource.getrlimit(what)
    ]
    resource.setrlimit(what, (least[0], least[1]))


if __name__ == "__main__":
    main()
