#!/bin/bash
# test_functions.sh - the functions of mappings give what the ECMAScript functions of those names give
#
# Generated calls with odd operands, done by our table and by Node; numbers of transcendental functions may differ by two
# units in the last place. QP_SEED repeats a run. The short lane does a few thousand, the long one many more.
set -eu
cd "$(dirname "$0")/../.."
build=${QP_BUILD:-build}

seed=${QP_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
count=8000
if [ "${QP_LANE:-check}" = torture ]; then
    count=200000
fi
echo "seed $seed (QP_SEED=$seed repeats this run), $count calls"
"$build/test/tools/functioncalls" "$seed" "$count" > "${TMPDIR:-/tmp}/calls.$$"
trap 'rm -f "${TMPDIR:-/tmp}/calls.$$"' EXIT
TZ=UTC node test/graph/functions.js < "${TMPDIR:-/tmp}/calls.$$"
