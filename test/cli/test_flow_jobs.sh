#!/bin/bash
# test_flow_jobs.sh - a flow on the command line: its history is a tree by locations, and show says what it waits for, on a file and over a
# server alike
set -u
. test/cli/lib.sh

story() {
    sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/T/g' "$1"
}

before_each() {
    mkdir -m 700 data && "$build/examples/flow" data/quipu.db order order-1 > /dev/null
}

# told: what is said of an order that waits for its approval
told() {
    "$quipu" history order-1 "$@" > history && story history | diff - <(cat << 'END'
{1}v1         activity charge  completed  3 attempts  T  T
{2}v1         activity reserve  completed  1 attempt  T  T
{3}v1         activity insure  completed  1 attempt  T  T
{4}v1         sleep  started  T  waits for the signal 'approved', until T
END
    ) && expect 0 "^waits_for +listen at \{4\}: waits for the signal 'approved', until 20" '' show order-1 "$@" &&
        matches '^\{1\}v1 +201100000000001  completed  activity  charge' "$TMPDIR/out" &&
        expect 0 '^@a1!$' '' history order-1 -q "$@" &&
        expect 0 '^\{1\}v1 .*201100000000001  \{"item"' '' history order-1 -o wide "$@" &&
        "$quipu" history order-1 -o json "$@" > facts &&
        jq -e '[.items[] | select(.location)] | map([.location, .version, .type, .topic, .status, .attempts]) == [
            ["{1}", 1, "activity", "charge", "completed", 3], ["{2}", 1, "activity", "reserve", "completed", 1],
            ["{3}", 1, "activity", "insure", "completed", 1], ["{4}", 1, "sleep", null, "started", null]]' facts > /dev/null &&
        jq -e '[.items[] | select(.location == "{1}")][0] | .entered_at < .answered_at' facts > /dev/null &&
        jq -e '[.items[] | select(.location == "{4}")][0] | .note | startswith("waits for the signal")' facts > /dev/null &&
        "$quipu" show order-1 -o json "$@" | jq -e '.waits_for | length == 1' > /dev/null
}

test_a_file_and_a_server_say_the_same() {
    told --db data/quipu.db && cp history file && cp facts file.facts && serve && told -s unix:data/quipu.sock && diff file history && diff file.facts facts
}

# The journal names the events, as it happens and afterwards.
test_follow() {
    "$quipu" signal order-1 approved by=Ada --db data/quipu.db > /dev/null 2>&1 &&
        "$build/examples/flow" data/quipu.db work order-1 > /dev/null &&
        "$quipu" history order-1 --follow --db data/quipu.db > lines &&
        story lines | grep -q '^ *4  T  entered  {1}v1 activity charge  001000000000000  running$' &&
        story lines | grep -q '^ *6  T  failed  {1}v1 activity charge  503  retrying  attempt 1  the bank is down  until T$' &&
        story lines | grep -Eq '^ *[0-9]+  T  entered  \{7, 1, 1, 1\}v1 activity where-is-it  001000000000000  running$' &&
        ! grep -q '@a' lines && expect 0 '^  \{7, 1\}v1    loop track  completed  20.*ended after 3 iterations$' '' history order-1 --db data/quipu.db &&
        matches '^      \{7, 1, 1, 1\}v1  activity where-is-it  completed  1 attempt  20' "$TMPDIR/out" &&
        "$quipu" history order-1 --follow -o jsonl --db data/quipu.db | jq -es '.[3] | [.location, .version, .type, .name] == ["{1}", 1, "activity", "charge"]' > /dev/null
}

# A decision that no process takes: the server knows that none serves the flow.
test_no_process_serves_the_flow() {
    "$quipu" signal order-1 approved by=Ada --db data/quipu.db > /dev/null 2>&1 && serve &&
        eventually sh -c "'$quipu' show order-1 -s unix:data/quipu.sock | grep -q 'the next decision: no process that runs the flow has taken it yet'" &&
        expect 0 '^unserved +\{"flow":"checkout"' "no worker serves the flow 'checkout'" show order-1 -s unix:data/quipu.sock
}

# Parked: the reason names the location and both sides, and what a person can do; corrected code goes on.
test_parked() {
    "$build/examples/flow_upgrade" up.db > story && grep -q '^order-1 is parked .*history and code differ at {1}' story || return 1
    "$quipu" history order-1 --db up.db > history && story history | diff - <(cat << 'END'
{1}v1         activity charge  completed  1 attempt  T  T
{1.1}v2       activity insure  completed  1 attempt  T  T
{2}v1         activity print-label  completed  1 attempt  T  T
{3}v1         signals  completed  T  T  received 'approved'
{4}v2         version  completed  T
{5}v2         activity fly  completed  1 attempt  T  T
{6}v1         signals  completed  T  T  received 'received'
END
    )
}

run_tests
