#!/bin/bash
# test_docs_http.sh - the curl commands of the documentation work as they stand there
#
# A command is an indented line that begins with curl, with what follows a backslash at its end. The address of the documentation is
# replaced with that of the server of this test.
set -eu
quipu=$PWD/${QP_BUILD:-build}/quipu
cat docs/server.md docs/http-api.md docs/workers.md > "$TMPDIR/pages"
cd "$TMPDIR"
"$quipu" serve --data-dir data --listen 127.0.0.1:0 > out 2> err &
server=$!
trap 'kill -9 $server 2> /dev/null || true' EXIT
address=
for _ in $(seq 200); do
    address=$(sed -n 's|^listening on http://||p' out)
    [ -z "$address" ] || break
    sleep 0.05
done
[ -n "$address" ]
export TOKEN
TOKEN=$(cat data/admin.token)
awk '/^    curl / { on = 1 } on { print; if (!/\\$/) { on = 0; print "echo; count=$((count + 1))" } }' pages |
    sed -e "s/127\.0\.0\.1:7700/$address/" -e 's/^ *curl /curl -sf --max-time 20 /' > commands
count=0
. ./commands > answers
[ "$count" -ge 2 ]
kill -TERM $server
wait $server
