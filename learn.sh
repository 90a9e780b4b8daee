#!/usr/bin/env bash
# The exercises: ./learn.sh list shows them, ./learn.sh --help the rest.
export SEVEN_CALLER=$PWD  # paths that are typed are seen from there
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. tools/venv.sh
exec python -m tools.learn "$@"
