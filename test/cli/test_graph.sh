#!/bin/bash
# test_graph.sh - quipu graph: what is wrong is told with its place, what is good is drawn
set -u
. test/cli/lib.sh

test_good_graphs() {
    local file
    for file in "$root"/test/graph/good/*.yaml; do
        expect 0 'graphs [0-9]+, activities [0-9]+' '' graph "$file" &&
            expect 0 '^digraph quipu' '' graph "$file" -o dot &&
            expect 0 '^flowchart' '' graph "$file" -o mermaid &&
            expect 0 '^  [a-z_]+ \(trigger' '' graph "$file" -o text &&
            expect 0 '^\{"id":' '' graph "$file" -o json || return 1
    done
}

# Every error, with its hint below, and how many there are.
test_errors() {
    cp "$root/test/graph/broken/many_at_once.yaml" many.yaml
    expect 1 '' "^many.yaml:[0-9]+:33: a trigger has no key 'topic' \[key_unknown\]" graph many.yaml &&
        matches "^    did you mean 'expire'\?" "$TMPDIR/err" &&
        matches '^5 errors, nothing deployed' "$TMPDIR/err" &&
        expect 1 '' '^1 error, nothing deployed' graph "$root/test/graph/broken/trigger_missing.yaml" -o dot
}

test_more_than_are_told() {
    { echo 'app: {id: a, version: "1", graphs: [{subscribes: a, activities: {'
      for i in $(seq 120); do echo "a$i: {type: bird},"; done
      echo '}}]}'; } > many.yaml
    expect 1 '' 'the first 50 of them are shown' graph many.yaml && matches '^121 errors' "$TMPDIR/err"
}

test_usage() {
    expect 2 '' 'graph' graph &&
        expect 2 '' "no-such.yaml.: No such file" graph no-such.yaml &&
        expect 2 '' "output must be dot, mermaid, text or json, got 'svg'" graph a.yaml -o svg
}

test_stdin() {
    stdin=$root/test/graph/good/chain.yaml expect 0 '^bakery 2.1: graphs 1, activities 3' '' graph -
}

run_tests
