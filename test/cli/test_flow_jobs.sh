#!/bin/bash
# test_flow_jobs.sh - a flow on the command line: its history is a tree by locations, and show says what it waits for, on a file and over a
# server alike
set -u
. test/cli/lib.sh

story() {
    sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/T/g; s/^( *[0-9]+  )[0-9]+(ms|s|[.][0-9]s) +/\1T  /; s/(done|waiting)( +)[0-9.]+(ms|s)( [0-9]+s)?/\1\2T/; s/ +$//; s/[0-9]+d left/LEFT/' "$1" |
        sed -E 's/ +T/  T/; s/  T +/  T  /; s/  T  $/  T/'
}

before_each() {
    mkdir -m 700 data && "$build/examples/flow" data/quipu.db order order-1 > /dev/null
}

# told: what is said of an order that waits for its approval
told() {
    "$quipu" history order-1 "$@" > history && story history | diff - <(cat << 'END'
{1} charge                    done  T  attempt 3  {"charge":"c-1"}
{2} reserve                   done  T  {"item":"quipu","price":42}
{3} insure                    done  T  {"item":"quipu","price":42}
{4} sleep                     waiting  T  for the signal approved, LEFT
END
    ) && expect 0 '^\{4\} sleep +waiting .*for the signal approved, [0-9]+d left$' '' show order-1 "$@" &&
        expect 0 "^waits_for +listen at \{4\}: waits for the signal 'approved', until 20" '' show order-1 -o wide "$@" &&
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
    told --db data/quipu.db && cp history file && cp facts file.facts && serve && told -s unix:data/quipu.sock && diff <(story file) <(story history) && diff file.facts facts
}

# The journal names the events, as it happens and afterwards.
test_follow() {
    "$quipu" signal order-1 approved by=Ada --db data/quipu.db > /dev/null 2>&1 &&
        "$build/examples/flow" data/quipu.db work order-1 > /dev/null &&
        "$quipu" history order-1 --follow --db data/quipu.db > lines &&
        story lines | grep -q '^ *4  T  {1} charge      entered$' &&
        story lines | grep -q '^ *6  T  {1} charge      attempt 1 failed: the bank is down (503); the next one in ' &&
        story lines | grep -Eq '^ *[0-9]+  T  \{7, 1, 1, 1\} where-is-it  entered$' &&
        ! grep -q '@a' lines && expect 0 '^  \{7, 1\} loop track +done .*ended after 3 iterations$' '' history order-1 --db data/quipu.db &&
        matches '^      \{7, 1, 1, 1\} where-is-it +done ' "$TMPDIR/out" &&
        expect 0 '^      \{7, 1, 1, 1\}v1  activity where-is-it  completed  1 attempt  20' '' history order-1 -o wide --db data/quipu.db &&
        "$quipu" history order-1 --follow -o jsonl --db data/quipu.db | jq -es '.[3] | [.location, .version, .type, .name] == ["{1}", 1, "activity", "charge"]' > /dev/null
}

# A decision that no process takes: the server knows that none serves the flow.
test_no_process_serves_the_flow() {
    "$quipu" signal order-1 approved by=Ada --db data/quipu.db > /dev/null 2>&1 && serve &&
        eventually sh -c "'$quipu' show order-1 -o wide -s unix:data/quipu.sock | grep -q 'the next decision: no process that runs the flow has taken it yet'" &&
        expect 0 '^decision +waiting .*for a worker that runs the flow; none serves it$' "no worker serves the flow 'checkout'" show order-1 -s unix:data/quipu.sock
}

# Parked: the reason names the location and both sides, and what a person can do; corrected code goes on.
test_parked() {
    "$build/examples/flow_upgrade" up.db > story && grep -q '^order-1 is parked .*history and code differ at {1}' story || return 1
    "$quipu" history order-1 --db up.db > history && story history | diff - <(cat << 'END'
{1} charge                    done  T
{1.1}v2 insure                done  T
{2} print-label               done  T
{3} signals                   done  T  received 'approved'
{4}v2 version                 done
{5}v2 fly                     done  T
{6} signals                   done  T  received 'received'
END
    )
}

run_tests
