#!/bin/bash
# test_carto.sh - quipu carto: imports and their errors, traversals of a store and of a server, resuming, split, exit codes
set -u
. test/cli/lib.sh
seed=${QP_SEED:-$RANDOM}
echo "seed $seed (QP_SEED=$seed repeats it)"
RANDOM=$seed

# A list of 300 packages that need each other, of which one needs what is not there.
make_list() {
    awk 'BEGIN {
        for (i = 0; i < 300; i++) {
            printf "Package: p%d\nVersion: 1.%d\nArchitecture: amd64\nDepends: p%d, p%d | q, p%d (>= 1)\n\n", i, i, (i + 1) % 300, (i * 7 + 3) % 300, (i * 3) % 300
        }
        print "Package: broken\nVersion: 1\nArchitecture: amd64\nDepends: gone\n"
    }' > Packages
}

before_each() {
    make_list && expect 0 '^deb@[0-9a-f]{64}: 301 packages, [0-9]+ facts$' '' carto import Packages --db a.db
}

test_import_errors() {
    printf 'Package: a\nVersion: 1\nArchitecture: amd64\nnonsense\n\n' > bad
    printf 'Package: a\nVersion: 1\nArchitecture: amd64\n' > cut
    expect 2 '' "'bad': .*line 4" carto import bad --db a.db &&
        expect 2 '' "'cut': .*line" carto import cut --db a.db &&
        expect 2 '' "'missing': No such file" carto import missing --db a.db &&
        expect 0 '^deb@' '' carto import Packages --db a.db &&
        expect 0 '"end":' '' carto deb:p1 --db a.db
}

test_refused() {
    expect 2 '' "unknown package type 'rpm'; known types: deb, npm" carto rpm:x --db a.db &&
        expect 2 '' "no package 'deb:brokn'.*nearest names are broken" carto deb:brokn --db a.db &&
        expect 2 '' "no version '9' of 'deb:p1'" carto deb:p1=9 --db a.db &&
        expect 2 '' "/roots/0: .*'pkg:deb/p1' is no package URL: its name is missing, or an escape in it is bad; one looks like pkg:deb/debian/curl" carto pkg:deb/p1 --db a.db &&
        expect 2 '' "is no package URL: its version is empty" carto pkg:deb/debian/p1@ --db a.db &&
        expect 2 '' "unknown package type 'rpm'" carto pkg:rpm/fedora/x@1 --db a.db &&
        expect 2 '' "no version '9' of 'deb:p1'" carto pkg:deb/debian/p1@9 --db a.db &&
        expect 0 '^deb:p1@1.1$' '' carto pkg:deb/debian/p1@1.1 -o tree --db a.db &&
        expect 2 '' 'pattern' carto deb:p1 -x 'deb:a b' --db a.db &&
        expect 2 '' "override of 'deb:p2'" carto deb:p1 --take deb:p2=9 --db a.db &&
        expect 2 '' 'source packages' carto deb:p1 --scope build_time --db a.db &&
        expect 2 '' '-o must be json, jsonl, tree, dot, mermaid, cyclonedx, spdx or own, got .xml' carto deb:p1 -o xml --db a.db
}

test_errors_of_items() {
    expect 0 'METADATA_MISSING' '1 items have errors' carto deb:broken --db a.db &&
        expect 10 'METADATA_MISSING' '1 items have errors' carto deb:broken --strict --db a.db &&
        expect 0 'MAX_DEPTH_REACHED' '' carto deb:p1 --depth 0 --db a.db
}

# Steps have numbers of their own, and no item has.
stages_are_counted() {
    local step
    curl -s --unix-socket data/quipu.sock http://quipu/metrics > scrape || return 1
    for step in carto.select.deb carto.resolve.deb carto.traverse.deb format; do
        grep -q "quipu_activity_attempts_total{workflow=\"carto\",activity=\"$step\",outcome=\"success\"}" scrape ||
            { echo "no metric of $step"; grep carto scrape; return 1; }
    done
    ! grep 'activity="#' scrape
}

# The same bytes: pages of 1, 7 and 500 items, split, and over a server.
test_same_bytes() {
    local how
    "$quipu" carto deb:p1 --closure A --db a.db > first || return 1
    for how in '--page 1' '--page 7' '--split'; do
        "$quipu" carto deb:p1 --closure A --db a.db $how > other && cmp first other || { echo "$how"; return 1; }
    done
    serve && QUIPU_SERVER=unix:data/quipu.sock && export QUIPU_SERVER || return 1
    "$quipu" carto import Packages > /dev/null && "$quipu" carto deb:p1 --closure A --id s > other && cmp first other &&
        "$quipu" carto deb:p1 --closure A --split > other && cmp first other && stages_are_counted &&
        expect 0 '"status":"SUCCESS"' '' carto status s &&
        expect 0 'end-detect-reason: TRAVERSE_COMPLETE' '' carto logs s &&
        expect 0 '^deb:p1@1.1$' '' carto result s -o tree &&
        expect 0 '' '' carto delete s && expect 3 '' "no traversal 's'" carto status s
    how=$?
    unset QUIPU_SERVER
    return $how
}

# A process that is killed at any moment: the same id goes on, and has the same bytes.
test_killed() {
    local n pid
    "$quipu" carto 'deb:*' --page 5 --db a.db > first || return 1
    for n in 1 2 3 4 5 6; do
        "$quipu" carto 'deb:*' --page 5 --id k --db a.db > other 2> err &
        pid=$!
        sleep "0.0$((RANDOM % 10))"
        kill -9 "$pid" 2> /dev/null
        wait "$pid" 2> /dev/null
    done
    "$quipu" carto 'deb:*' --page 5 --id k --db a.db > other 2> err && cmp first other && "$quipu" fsck a.db > /dev/null 2>&1
}

test_interrupted() {
    local pid
    "$quipu" carto 'deb:*' --page 1 --id i --db a.db > other 2> err &
    pid=$!
    eventually "$quipu" show i --db a.db || return 1
    kill -INT "$pid"
    wait "$pid"
    case $? in
    130) grep -q "the traversal 'i' is kept" err || { cat err; return 1; } ;;
    0) ;; # it was faster
    *) cat err; return 1 ;;
    esac
    "$quipu" carto 'deb:*' --page 1 --id i --db a.db > other && "$quipu" carto 'deb:*' --db a.db > first && cmp first other
}

# A format of the request's own, of a traversal that is there, and of one that has brought none.
test_own_format() {
    echo '{"name": "{$item.name}", "at": "{$item.depth}"}' > mapping.json
    echo '{"name": ' > broken.json
    echo '"{a.output.data}"' > foreign.json
    expect 0 '^{"name":"p1","at":0}$' '' carto deb:p1 --format mapping.json -o own --id o --db a.db &&
        [ "$(wc -l < "$TMPDIR/out")" = "$("$quipu" carto result o --db a.db | jq '.nodes | length')" ] &&
        expect 0 '^{"name":"p2","at":1}$' '' carto result o -o own --db a.db &&
        expect 2 '' "the mapping 'broken.json': " carto deb:p1 --format broken.json --db a.db &&
        expect 2 '' 'there is nothing but the item to refer to' carto deb:p1 --format foreign.json --db a.db &&
        "$quipu" carto deb:p1 --id none --db a.db > out &&
        expect 2 '' "has brought no format for nodes" carto result none -o own --db a.db
}

# One for paths: what it makes of each path of why.
test_own_format_of_paths() {
    echo '{"@pipe": [["{$item.nodes}"], ["{@array.length}"]]}' > length.json
    echo '"{$item.edges.0.requirement}"' > first.json
    expect 0 '"formatted":\[2,[0-9]' '' carto why deb:p1 deb:p2 --format-path length.json -k 3 -o json --db a.db &&
        "$quipu" carto deb:p1 --format-path length.json --id w --db a.db > out &&
        expect 0 '^\{"id":"w",.*"formatted":\[2\]' '' carto why deb:p1 deb:p2 --in w -k 1 -o json --db a.db &&
        expect 2 '' "has brought no format for nodes" carto result w -o own --db a.db &&
        "$quipu" carto deb:p1 --format-path first.json --format first.json --id both --db a.db > out &&
        expect 0 '"formatted":\["p2"\]' '' carto why deb:p1 deb:p2 --in both -k 1 -o json --db a.db &&
        expect 0 '^null$' '' carto result both -o own --db a.db &&
        expect 0 '"more":' '' carto why deb:p1 deb:p2 -k 1 -o json --db a.db && ! grep -q formatted "$TMPDIR/out"
}

test_dependents() {
    "$quipu" carto rdepends deb:p2 --db a.db > out && grep -qx p1 out &&
        "$quipu" carto rdepends deb:p2 --recursive --db a.db > out && grep -qx 'p1 p2' out &&
        expect 3 '' "no package 'deb:none'" carto rdepends deb:none --db a.db
}

# Why a package is there, and what differs: of a store and of a server, of traversals and of results that were saved.
test_questions() {
    local p1='pkg:deb/debian/p1@1\.1' p2='pkg:deb/debian/p2@1\.2'
    "$quipu" carto deb:p1 --id one --db a.db > one.json && "$quipu" carto deb:p1 --id two -x deb:broken --db a.db > two.json &&
        "$quipu" carto deb:p1 --id cut --depth 1 --db a.db > cut.json || return 1
    expect 0 "$p1" '' carto why deb:p1 deb:p2 --db a.db &&
        expect 0 "^  $p2  \(depends p2, runtime\)$" '' carto why deb:p1 deb:p2 --in one --db a.db &&
        expect 0 '^direct dependents: [0-9]+$' '' carto why deb:p1 deb:p2 -k 5 --in one --db a.db &&
        expect 0 'there are more paths: -k N' '' carto why deb:p1 deb:p9 -k 1 --in one --db a.db &&
        expect 0 '^\{"id":"one",.*"paths":\[\{"nodes":\["pkg:deb/debian/p1@1.1"' '' carto why deb:p1 pkg:deb/debian/p2@1.2 --in one -o json --db a.db &&
        expect 3 '^direct dependents: 0$' "no path leads from 'deb:p2' to 'deb:p1'" carto why deb:p2 deb:p1 --in cut --db a.db &&
        expect 3 '' "the result has no package 'deb:p2000'" carto why deb:p1 deb:p2000 --in one --db a.db &&
        expect 2 '' "names no package" carto why deb:p1 p2 --in one --db a.db &&
        expect 2 '' "-k|--paths" carto why deb:p1 deb:p2 -k 101 --in one --db a.db &&
        expect 3 '' "no traversal 'three'" carto why deb:p1 deb:p2 --in three --db a.db &&
        expect 0 '^one .*completed' '' carto ls --db a.db && expect 0 '^[0-9]+$' '' carto ls --count --db a.db || return 1
    expect 0 '' '' carto diff one two --exit-code --db a.db && [ ! -s out ] &&
        expect 1 '^- pkg:deb/debian/p' '' carto diff one cut --exit-code --db a.db &&
        expect 0 '^\{"from":\{"id":"one".*"same":false\}' '' carto diff one cut -o json --db a.db &&
        expect 0 '' '' carto diff one.json @two.json --exit-code &&
        expect 1 '^\+ deb:p' '' carto diff cut one.json --exit-code --db a.db &&
        expect 2 '' "'a.db.json': No such file" carto diff one.json a.db.json &&
        expect 3 '' "no traversal 'three'" carto diff one three --db a.db || return 1
    echo '{"nodes":1}' > bad.json
    expect 2 '' "'bad.json': it is not a result of quipu carto -o json" carto diff one.json bad.json || return 1
    "$quipu" carto diff one cut -o json --db a.db | sed 's/.*"added"/"added"/' > there &&
        "$quipu" carto diff one.json cut.json -o json | sed 's/.*"added"/"added"/' > here && cmp there here
}

# An equal request is the same traversal: on the same lists, with the same options; not with --fresh, nor with an id of its own.
test_cached() {
    local how
    jobs() { [ "$("$quipu" carto ls --count --db a.db)" = "$1" ] || { echo "not $1 jobs"; "$quipu" carto ls --db a.db; return 1; }; }
    for how in 1 2 3; do
        "$quipu" carto deb:p1 --db a.db > "r$how" && cmp r1 "r$how" && jobs 1 || return 1
    done
    "$quipu" carto deb:p1 --fresh --db a.db | cmp - r1 && jobs 2 && "$quipu" carto deb:p1 --id own --db a.db | cmp - r1 && jobs 3 &&
        "$quipu" carto deb:p1 --depth 9 --db a.db > /dev/null && jobs 4 && "$quipu" carto why deb:p1 deb:p2 --db a.db > /dev/null && jobs 4 || return 1
    serve || return 1
    post() { curl -s --unix-socket data/quipu.sock -H 'content-type: application/json' "http://quipu/v1/traversals$1" -d "$2"; }
    post /imports '{"type":"deb","universe":"u","facts":[["value","a","010105616d643634013100000000"],["sources","a","610a"]],"complete":2}' > /dev/null
    for how in false true; do
        post '' '{"roots":["deb:a"]}' | grep -q "\"id\":\"carto-[0-9a-f]*\",\"cached\":$how" || { post '' '{"roots":["deb:a"]}'; return 1; }
    done
    post '' '{"roots":["deb:a"],"fresh":true}' | grep -q '"cached":false' && post '' '{"roots":["deb:a"],"fresh":1}' | grep -q '/fresh'
}

run_tests
