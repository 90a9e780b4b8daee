#!/usr/bin/env bash
# Measures every server and builds the site with the figures.
# ./bench.sh --help says what it can do.
cd "$(dirname "$0")" || exit 1
# ApacheBench makes the load. Root gets it from the package manager; all others
# are told how, and measure with our own client.
if ! command -v ab >/dev/null && [ "$(id -u)" -eq 0 ]; then
    for install in "apt-get install -y apache2-utils" \
        "dnf install -y httpd-tools" "apk add apache2-utils"; do
        if command -v "${install%% *}" >/dev/null; then
            echo "ab (ApacheBench) is missing: $install" >&2
            if [ "${install%% *}" = apt-get ]; then apt-get update -qq; fi
            DEBIAN_FRONTEND=noninteractive $install >/dev/null || true
            break
        fi
    done
fi
. tools/venv.sh
exec python -m tools.bench "$@"
