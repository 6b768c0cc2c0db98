#!/bin/bash
# test_workers_doc.sh - the worker of docs/workers.md, as it stands there, does its work: also across a kill of the server
set -eu
quipu=$PWD/${QP_BUILD:-build}/quipu
awk '/^```bash$/ { on = 1; next } /^```$/ { on = 0 } on' docs/workers.md > "$TMPDIR/worker.sh"
cd "$TMPDIR"
[ -s worker.sh ]
server= worker=
trap '[ -z "$worker" ] || kill $worker; [ -z "$server" ] || kill -9 $server' EXIT

# serve ADDRESS: starts the server there, and waits until it is ready
serve() {
    rm -f out
    "$quipu" serve --data-dir data --listen "$1" > out 2> err &
    server=$!
    for _ in $(seq 200); do
        QUIPU_URL=$(sed -n 's/^listening on \(http.*\)$/\1/p' out 2> /dev/null || true)
        [ -z "$QUIPU_URL" ] || break
        sleep 0.05
    done
    [ -n "$QUIPU_URL" ]
}

# greet NAME: the greeting that the worker makes
greet() {
    curl -sf --max-time 70 -H "Authorization: Bearer $QUIPU_TOKEN" -H 'Content-Type: application/json' \
        -d "{\"topic\":\"greet\",\"input\":{\"name\":\"$1\"}}" "$QUIPU_URL/v1/jobs?wait=60s" | jq -r .output.greeting
}

serve 127.0.0.1:0
QUIPU_TOKEN=$(cat data/admin.token)
export QUIPU_URL QUIPU_TOKEN
bash worker.sh &
worker=$!
[ "$(greet Ada)" = "Hello, Ada!" ]
[ "$(greet 'Inti "the sun"' 2> /dev/null || true)" != "Hello" ] # a name that is no JSON is refused, and nothing breaks
# outcome SIZE: what becomes of a job whose greeting is so large: the worker says so, and goes on
outcome() {
    { printf '{"topic":"greet","input":{"name":"'; head -c "$1" /dev/zero | tr '\0' x; printf '"}}'; } |
        curl -sf --max-time 70 -H "Authorization: Bearer $QUIPU_TOKEN" -H 'Content-Type: application/json' -H 'Expect:' \
            --data-binary @- "$QUIPU_URL/v1/jobs?wait=60s" | jq -r '.status + " " + .error.message'
}
[ "$(outcome 1048570)" = "failed output: json: string of 1048578 bytes, the limit is 1048576, at byte 12, line 1:13" ]
[ "$(greet Ida)" = "Hello, Ida!" ]
kill -9 $server
wait $server 2> /dev/null || true
serve "${QUIPU_URL#http://}"
[ "$(greet Grace)" = "Hello, Grace!" ]
kill $worker
worker=
kill -TERM $server
wait $server
server=
"$quipu" fsck data/quipu.db
