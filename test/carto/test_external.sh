#!/bin/bash
# test_external.sh - a package type whose workers are in Python: its results, kills of servers and workers, nodes that only resolve
#
# examples/requirements_worker.py serves the type req. With QP_LANE=torture there are more kills, and two nodes resolve at least 1.7 times as
# fast as one.
set -u
if [ -z "${QP_TEST_PG:-}" ]; then
    exec "$(realpath "${QP_BUILD:-build}")/test/tools/withpg" bash "$0"
fi
. test/cli/lib.sh
seed=${QP_SEED:-$RANDOM}
echo "seed $seed (QP_SEED=$seed repeats it)"
RANDOM=$seed
[ "${QP_LANE:-check}" = torture ] && kills=25 || kills=4

# work FOLDER STEP...: a worker of these steps at the server; its process is $worker
work() {
    QUIPU_URL=$url QUIPU_TOKEN=$(cat "$data/admin.token") exec python3 "$root/examples/requirements_worker.py" "$@" 2>> worker.err &
    worker=$!
    servers+=("$worker")
}

# ask ARGUMENT...: the program, at the server
ask() {
    QUIPU_SERVER=$url QUIPU_TOKEN=$(cat "$data/admin.token") "$quipu" "$@"
}

before_each() {
    data=data
}

test_example() {
    local format
    serve && ask carto register req --mode ordered > out || return 1
    work "$root/examples/requirements" select && work "$root/examples/requirements" resolve || return 1
    ask carto req:shop -o tree > out || return 1
    cat > expected << 'TREE'
req:shop@2.0
  req:web@1.4
    req:template@3.0
      req:escape@1.1 (deduped)
    req:escape@1.1
  req:store@2.2
    req:escape@1.1 (deduped)
    req:pool@1.0
      req:store@2.2 (circular)
  req:mail (METADATA_MISSING: the folder has no 'mail')
TREE
    diff expected out || return 1
    ask carto req:shop --id shop > out && mkdir shop && for format in json dot mermaid cyclonedx spdx; do
        ask carto result shop -o $format > shop/$format || return 1
    done
    command node "$root/test/carto/formats.js" shop && nop -p shop/dot > /dev/null || return 1
    ask carto types > out && grep -Eq '^req +ordered +false +carto.select.req +carto.resolve.req' out || { cat out; return 1; }
    ask carto req:web@2.0 --take req:escape=1.0 > out && grep -q 'pkg:req/escape@1.0' out || { cat out; return 1; }
    QUIPU_SERVER=$url expect 2 '' "unknown package type 'rpm'; known types: deb, npm, req" carto rpm:x --token-file data/admin.token &&
        ask carto unregister req && QUIPU_SERVER=$url expect 2 '' "unknown package type 'req'; known types: deb, npm" carto req:x --token-file data/admin.token
}

# A graph with cycles of 60 packages, made from the seed.
make_folder() {
    local i j
    mkdir folder
    for i in $(seq 0 59); do
        for j in 1 2 3; do
            echo "p$((RANDOM % 60))>=1"
        done > "folder/p$i-1.$((RANDOM % 3)).txt"
    done
}

# The server and both workers are killed at any moment, and others go on: the same bytes as undisturbed, in one traversal.
test_killed() {
    local n address pid
    make_folder && serve && ask carto register req --mode ordered > out || return 1
    address=${url#http://}
    work folder && ask carto req:p0 req:p1 > first && [ "$(jq '.nodes | length' first)" -gt 20 ] || { cat first; return 1; }
    export SLOW=0.01
    for n in $(seq "$kills"); do
        ask carto req:p0 req:p1 --page 7 --id k --timeout 300s > other 2> err &
        pid=$!
        sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
        kill -9 "$worker"
        if [ $((n % 2)) = 1 ]; then
            kill -9 "$server"
            wait "$server" 2> /dev/null
            serve || return 1
        fi
        kill -9 "$pid" 2> /dev/null
        wait "$pid" 2> /dev/null
        work folder
    done
    unset SLOW
    work folder
    ask carto req:p0 req:p1 --page 7 --id k --timeout 300s > other && cmp first other || { cat worker.err; return 1; }
    stop TERM && "$quipu" fsck data/quipu.db > out 2>&1 || { cat out; return 1; }
}

# Answers with too many relationships, and larger than a request may be: each item says which, and the others are as they were.
test_large_answers() {
    serve && ask carto register req > out && mkdir folder && printf 'many\nhuge\nsmall\n' > folder/a-1.txt || return 1
    : > folder/small-1.txt
    awk 'BEGIN { for (i = 0; i < 20000; i++) print "a>=1" }' > folder/many-1.txt
    awk 'BEGIN { for (i = 0; i < 100000; i++) print "a>=1" }' > folder/huge-1.txt
    work folder && ask carto req:a -o jsonl --timeout 100s > out 2> err || { cat err; return 1; }
    grep -q '"target":"many".*METADATA_ERROR.*/relations has 20000 relationships, at most 10000 are taken (LIMIT_CARTO_RELATIONS)' out &&
        grep -q '"target":"huge".*WORKER_LOST.*the answer is larger than a request may be' out &&
        grep -q '"target":"small".*"state":"DONE"' out || { cat out; return 1; }
}

# node N: a server on the database of the test, and a worker of RESOLVE at it
node() {
    data=data$1
    mkdir -m 700 "$data" && cp data0/admin.token "$data" && : > "out$1" || return 1 # one store, one token
    "$quipu" serve --data-dir "$data" --store "$place" --listen 127.0.0.1:0 --carto-topics carto.resolve.req > "out$1" 2>> serve.err &
    node=$!
    servers+=("$node")
    for _ in $(seq 400); do
        url=$(sed -n 's/^listening on \(http.*\)$/\1/p' "out$1")
        [ -z "$url" ] || break
        sleep 0.05
    done
    [ -n "$url" ] && work folder resolve
}

# run NAME: a traversal of the whole folder; how long it took, in milliseconds, is $took
run() {
    local began=${EPOCHREALTIME/./}
    data=data0 url=$url0 ask carto req:root --id "$1" --timeout 300s > "$1" || return 1
    took=$(((${EPOCHREALTIME/./} - began) / 1000))
}

# Nodes of one database: the first does everything but RESOLVE, which is slow; a second node that resolves doubles the rate, and one that is
# killed in between costs nothing but time.
test_nodes() {
    local n=20 i url0 one first_node first_worker
    place="$QP_TEST_PG/postgres?schema=carto_external"
    [ "$kills" = 4 ] || n=60
    mkdir folder && for i in $(seq "$n"); do echo "c$i" && : > "folder/c$i-1.txt"; done > folder/root-1.txt
    serve --store "$place" && url0=$url && data=data && ask carto register req > out && work folder select || return 1
    mkdir data0 && cp data/admin.token data0 && export SLOW=0.15 && node 1 && first_node=$node first_worker=$worker && run a || return 1
    one=$took
    node 2 && run b && cmp a b || return 1
    echo "RESOLVE by one node $one ms, by two $took ms"
    [ "$kills" = 4 ] || [ $((one * 10)) -ge $((took * 17)) ] || return 1
    { sleep 0.5; kill -9 "$first_node" "$first_worker"; } &
    run c && cmp a c
}

run_tests
