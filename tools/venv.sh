# Sourced by bench.sh and test.sh: makes .venv with the pinned dependencies
# if it is missing or stale, and puts it first in PATH.
# The second start costs nothing.

find_python() {
    for candidate in "${PYTHON:-}" python3 python3.15 python3.14 \
        python3.13 python3.12 python3.11 python; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
            2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "No Python 3.11 or newer was found: install one, or name it with" \
        "PYTHON=/path/to/python3 $0" >&2
    return 1
}

make_venv() {
    local python wanted
    python=$(find_python) || return 1
    wanted=$({ "$python" --version; cat pyproject.toml constraints.txt; } |
        cksum)
    if [ "$(cat .venv/made-from 2>/dev/null)" != "$wanted" ]; then
        echo "Setting up .venv (once, about a minute) ..." >&2
        rm -rf .venv
        if ! "$python" -m venv .venv 2>.venv-error; then
            cat .venv-error >&2
            rm -f .venv-error
            echo "Python's venv module does not work here: on Debian and" \
                "Ubuntu, apt install python3-venv" >&2
            return 1
        fi
        rm -f .venv-error
        if ! .venv/bin/python -m pip install --quiet \
            --disable-pip-version-check --upgrade "pip>=25.1" ||
            ! .venv/bin/python -m pip install --quiet \
                --disable-pip-version-check --constraint constraints.txt \
                --group bench --group site --group test; then
            echo "The packages could not be installed. How to prepare them" \
                "for a machine without a network: docs/teach/lab.md#offline" >&2
            return 1
        fi
        echo "$wanted" >.venv/made-from
    fi
    PATH="$PWD/.venv/bin:$PATH"
    export PATH
}

make_venv || exit 1
