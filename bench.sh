#!/usr/bin/env bash
# Measures every server and builds the site with the figures.
# ./bench.sh --help says what it can do.
cd "$(dirname "$0")" || exit 1
. tools/venv.sh
exec python -m tools.bench "$@"
