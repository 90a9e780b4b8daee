#!/usr/bin/env bash
# The tests: the contract and the lessons of all servers, the tools, the
# site, style; with --all also what takes long: browsers, types, exercises
# under the contract. Options of pytest pass through:
#
#   ./test.sh                            quick: about three minutes
#   ./test.sh --all                      everything: sixteen
#   ./test.sh -k idle -x                 what pytest's options choose
#   ./test.sh --server my/server.py      the shared tests against your server
#   ./test.sh --server my/server.py --step 03   (or like one: 05-threads)
#   ./test.sh --conformance FILE         everything, and write to FILE what
#                                        each rule did on each server
#   ./test.sh --sketches FILE            the shared tests against the
#                                        sketches: what rules they break
#   SEVEN_PYTHON=pypy3 ./test.sh         the shared tests against our
#                                        servers, run by another Python
# A thorough test runs with --all only, also when a file or -k names it.
caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
. tools/venv.sh

# "--server PATH" becomes "--server=PATH" (pytest would look for tests in a
# PATH that stands alone), seen from the caller's directory; a FILE too.
# What pytest makes of the tests' asserts is kept, also where Python's cache
# is turned off: it takes ten seconds in each worker.
unset PYTHONDONTWRITEBYTECODE
arguments=(--no-loadscope-reorder)
while [ $# -gt 0 ]; do
    case $1 in
    --server | --step | --conformance | --sketches)
        if [ $# -lt 2 ]; then
            echo "$1 needs a value, as in: ./test.sh --server my/server.py" \
                "--step 03, or ./test.sh --conformance results.json" >&2
            exit 2
        fi
        name=$1 value=$2
        shift
        ;;
    --server=* | --step=* | --conformance=* | --sketches=*) name=${1%%=*} value=${1#*=} ;;
    *) name='' ;;
    esac
    if [ -z "$name" ]; then
        arguments+=("$1")
    else
        case $name$value in
        --server/* | --conformance/* | --sketches/* | --step*) ;;
        *) value=$caller/$value ;;
        esac
        arguments+=("$name=$value")
    fi
    shift
done

exec python -m pytest -n 6 "${arguments[@]}"  # they mostly wait
