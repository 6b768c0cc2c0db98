#!/bin/bash
# test_agent_traces.sh - the traces of agent workflows through the endpoints of a server: the document's fifteen steps, array by
# array, and every other trace whose works all start, first in, first out
set -u
. test/cli/lib.sh

PLAYED='s1 s10 s2_fifo s27 s4 s6 s7 timeout_then_success'
# In these the engine gives a decision out again, which takes it a minute.
SLOW='events_as_counters s22 lost_with_its_agent'
# Here an event comes a millisecond behind the end of a wait, which no real clock repeats.
CLOSE='waits_on_one_event'

# play TRACE: its exit code and what it said stand in TRACE.out
play() {
    "$build/test/tools/decide" --http "$agents" "$root/test/agent/traces/$1.json" > "$1.out"
    echo "exit $?" >> "$1.out"
}

# All at a time: each has an environment of its own.
test_002_traces_over_http() {
    local trace bad=0
    [ "${QP_LANE:-check}" != torture ] || PLAYED="$PLAYED $SLOW"
    serve --no-auth --agent-port 0 && agents=$(sed -n 's/^serving agents on //p' serve.out) || return 1
    local players=()
    for trace in $PLAYED; do
        play "$trace" &
        players+=($!)
    done
    wait "${players[@]}"
    for trace in $PLAYED; do
        [ "$(cat "$trace.out")" = 'exit 0' ] || { echo "$trace:"; cat "$trace.out"; bad=1; }
    done
    stop TERM && expect 0 '' '0 errors' fsck --db data/quipu.db && [ $bad = 0 ]
}

# The others are refused before anything is asked of the server.
test_traces_that_cannot_be_played() {
    local file trace
    agents=http://127.0.0.1:1
    for file in "$root"/test/agent/traces/*.json; do
        trace=$(basename "$file" .json)
        case " $PLAYED $SLOW $CLOSE " in *" $trace "*) continue ;; esac
        play "$trace"
        grep -q '^cannot be played: step' "$trace.out" && grep -q '^exit 3$' "$trace.out" || { cat "$trace.out"; return 1; }
    done
}

run_tests
