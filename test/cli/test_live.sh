#!/bin/bash
# test_live.sh - things that happen meanwhile: the server is killed while somebody waits, a job is watched, the demo tells its story
set -u
. test/cli/lib.sh

# worker TOPIC: answers tasks of the topic with their input, until the test ends
worker() {
    while true; do
        body="{\"worker\":\"w\",\"topics\":[\"$1\"],\"wait\":\"5s\",\"results\":${results:-[]}}"
        answer=$(curl -sf --max-time 20 --unix-socket data/quipu.sock -H 'Content-Type: application/json' -d "$body" \
            http://localhost/v1/work) || { sleep 0.1; continue; }
        results=$(jq -c '[.tasks[] | {token, output: .input}]' <<< "$answer")
    done
}

# Every kill of the server in the middle of `start --wait` is survived: one job, its output, exit code 0.
test_start_waits_across_kills() {
    local rounds=3 round waiting
    serve || return 1
    address=${url#http://}
    for round in $(seq $rounds); do
        "$quipu" start echo n:="$round" --id "k-$round" --wait --timeout 60s -s unix:data/quipu.sock > "out.$round" 2> "err.$round" &
        waiting=$!
        sleep "0.0$((round * 3))"
        stop 9
        serve || return 1
        if [ "$round" = 1 ]; then
            worker echo > /dev/null 2>&1 &
            servers+=("$!")
        fi
        wait "$waiting" || { echo "round $round: exit $?"; cat "err.$round"; return 1; }
        grep -qx "{\"n\":$round}" "out.$round" || { cat "out.$round"; return 1; }
    done
    unset address
    expect 0 "^$rounds\$" '' ls --count -s unix:data/quipu.sock || return 1
    stop TERM || { echo "the server ended with $?"; tail -5 serve.err; return 1; }
    expect 0 '' ' 0 errors' fsck data/quipu.db
}

# Who asks too often is answered when it is time, whatever the question; but not beyond the time of the command.
test_rate_limited() {
    serve --token-rate 1 || return 1
    local at=(--server "$url" --token-file data/admin.token) begun=$SECONDS i
    for i in 1 2 3 4 5; do
        expect 0 '^r$' '' start slow --id r -q "${at[@]}" || return 1
    done
    [ $((SECONDS - begun)) -ge 2 ] || { echo "five questions at once were not too many"; return 1; }
    begun=$SECONDS
    expect 1 '' 'wait as long as Retry-After says' wait r --timeout 100ms "${at[@]}" &&
        [ $((SECONDS - begun)) -le 2 ] || return 1
    "$quipu" watch r --timeout 60s -q "${at[@]}" > watched 2> watch.err &
    local watcher=$!
    expect 0 - '' kill r --yes "${at[@]}" || return 1
    wait "$watcher"
    [ $? -eq 11 ] || { cat watched watch.err; return 1; }
}

test_watch() {
    serve || return 1
    "$quipu" start echo --id w -s unix:data/quipu.sock > /dev/null || return 1
    "$quipu" watch w -s unix:data/quipu.sock > lines 2> talk &
    local plain=$!
    "$quipu" history w --follow -o jsonl -s unix:data/quipu.sock > events &
    local follow=$!
    COLUMNS=100 script -qec "$quipu watch w -s unix:data/quipu.sock" /dev/null < /dev/null > tree &
    local drawn=$!
    eventually [ -s lines ] && eventually [ -s events ] && eventually [ -s tree ] || return 1
    worker echo > /dev/null 2>&1 &
    servers+=("$!")
    wait $plain && wait $follow && wait $drawn || { cat lines talk events tree; return 1; }
    matches "the job 'w' is completed" talk && matches 'echo +answered; the job is completed$' lines && ! grep -q $'\033' lines &&
        [ "$(jq -r .seq events | tr '\n' ' ')" = "1 2 3 4 " ] && grep -q 'echo .*waiting' tree && grep -q 'echo .*done' tree
}

test_watch_across_a_kill() {
    serve || return 1
    address=${url#http://}
    "$quipu" start echo --id w -s unix:data/quipu.sock > /dev/null || return 1
    "$quipu" watch w -s unix:data/quipu.sock > lines 2> talk &
    local watching=$!
    eventually [ -s lines ] || return 1
    stop 9
    serve || return 1
    unset address
    worker echo > /dev/null 2>&1 &
    servers+=("$!")
    wait $watching || { cat lines talk; return 1; }
    [ "$(awk '{ print $1 }' lines | tr '\n' ' ')" = "1 2 3 4 " ] || { cat lines; return 1; }
}

# interruptible ARGUMENT...: the program with SIGINT as a terminal gives it; the shell lets what it runs behind itself ignore it
interruptible() {
    exec env --default-signal=INT "$quipu" "$@"
}

test_interrupt_and_pipe() {
    "$quipu" start echo --id w --db f.db > /dev/null || return 1
    interruptible watch w --db f.db > lines 2> talk &
    local pid=$! status
    eventually [ -s lines ] && kill -INT $pid || return 1
    wait $pid
    status=$?
    [ $status -eq 130 ] && [ ! -s talk ] || { echo "exit $status"; cat talk; return 1; }
    (env --default-signal=PIPE "$quipu" help -o markdown 2> talk || true) | head -1 > /dev/null
    [ ! -s talk ]
}

test_demo() {
    mkdir tmp
    TMPDIR=$PWD/tmp "$quipu" demo --fast < /dev/null > story 2> talk || { cat story talk; return 1; }
    matches 'SIGKILL' story && matches 'it recovered in [0-9.]+ ms' story && matches 'reserve +called 1 time$' story &&
        matches 'charge +called 1 time$' story && matches 'no person is at a terminal' story && matches 'order-1001 is completed' story &&
        matches ' 1 jobs, 0 errors, 0 warnings' story && matches '101100000000001' story && [ ! -s talk ] &&
        [ -z "$(ls tmp)" ] && ! grep -q $'\033' story
}

test_demo_on_a_terminal() {
    mkfifo keys
    script -qec "$quipu demo --fast" /dev/null < keys > story &
    local pid=$! keyboard
    exec {keyboard}> keys
    eventually grep -q 'press Enter to approve' story && echo >&$keyboard
    wait $pid || { cat story; return 1; }
    exec {keyboard}>&-
    matches 'press Enter to approve' story && matches 'order-1001 is completed' story
}

# The server of a demo is its child.
has_children() {
    [ -n "$(ps -o pid= --ppid "$1")" ]
}

are_gone() {
    ! ps -o pid= -p "$(echo $1 | tr ' ' ',')"
}

# ends_alone SIGNAL EXIT: a demo that gets the signal ends with this code, and nothing that it has started goes on
ends_alone() {
    mkdir tmp
    TMPDIR=$PWD/tmp interruptible demo > story 2>&1 < /dev/null &
    local pid=$! children status
    eventually has_children $pid && eventually grep -q 'order-1001' story || { cat story; return 1; }
    children=$(ps -o pid= --ppid $pid)
    kill "-$1" $pid
    wait $pid 2> /dev/null
    status=$?
    [ $status -eq "$2" ] || { echo "exit $status"; cat story; return 1; }
    eventually are_gone "$children"
}

test_demo_is_interrupted() {
    ends_alone INT 130
}

test_demo_is_killed() {
    ends_alone 9 137
}

run_tests
