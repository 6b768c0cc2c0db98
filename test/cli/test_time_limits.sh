#!/bin/bash
# test_time_limits.sh - tasks that no worker starts, ends or keeps alive in time: code 408 for single jobs and graphs, over HTTP and on the
# command line, and on two servers that share a database when the one that gave the task away is killed
#
# A server blames no worker for a heartbeat that it could not have taken, so not in its first 30 s: that limit is tried in the torture lane.
set -u
if [ -z "${QP_TEST_PG:-}" ]; then
    exec "$(realpath "${QP_BUILD:-build}")/test/tools/withpg" bash "$0"
fi
. test/cli/lib.sh

beats=false
[ "${QP_LANE:-check}" != torture ] || beats=true

# Each activity has a limit of its own, and a transition takes its error.
write_limits() {
    cat > limits.yaml << 'END'
app:
  id: limits
  version: '1'
  graphs:
    - subscribes: limits.start
      activities:
        want: { type: trigger }
        idle: { type: worker, topic: limits.never, startTimeout: 0.2 }
        slow: { type: worker, topic: limits.slow, timeout: 0.5s }
        mute: { type: worker, topic: limits.mute, heartbeat: 0.5, retry: { '408': [1] } }
        last: { type: worker, topic: quipu.echo }
      transitions:
        want: [{ to: idle }]
        idle: [{ to: slow, conditions: { code: 408 } }]
        slow: [{ to: mute, conditions: { code: 408 } }]
        mute: [{ to: last, conditions: { code: 408 } }]
END
    $beats || sed -i '/^        mute:/d; s/to: mute/to: last/' limits.yaml
}

# call SOCKET BODY: a worker's call
call() {
    curl -s --max-time 30 --unix-socket "$1" --json "$2" http://localhost/v1/work
}

# take SOCKET TOPIC: a worker gets the task, and is silent from then on; $token is its token
take() {
    token=$(call "$1" "{\"worker\":\"w\",\"topics\":[\"$2\"],\"wait\":\"20s\"}" | jq -r '.tasks[0].token // empty')
    [ -n "$token" ] || { echo "no task of $2"; return 1; }
}

# silent SOCKET: a worker takes the task of limits.mute and says nothing of it, until the server has run for 30 s and blames it, and for 30 s
# more where it has found another one dead
silent() {
    $beats || return 0
    for _ in 1 2 3 4 5; do
        sleep 20
        take "$1" limits.mute || return 1
        "$quipu" wait job-1 --timeout 5s "${at[@]}" > wait.out 2>&1 && return 0
    done
    cat wait.out
    return 1
}

# bring SOCKET: its result comes too late, and changes nothing
bring() {
    call "$1" "{\"worker\":\"w\",\"results\":[{\"token\":\"$token\",\"output\":1}]}" |
        jq -e '.acks[0].status | . == "stale" or . == "cancelled"' > /dev/null || { echo "a late result counts"; return 1; }
}

# said WHERE...: the errors of all three, in activities and in the history
said() {
    "$quipu" show job-1 -o json "$@" | jq -e '.status == "completed"' > /dev/null &&
        expect 0 ' idle +attempt 1 failed: start timeout: no worker took the task within 200 ms.* \(408\)' '' history job-1 "$@" &&
        matches ' slow +attempt 1 failed: timeout: the attempt did not end within 500 ms of its start.* \(408\)' "$TMPDIR/out" &&
        { ! $beats || matches ' mute +attempt 1 failed: .*heartbeat.* \(408\)' "$TMPDIR/out"; } &&
        expect 0 '^idle +failed .*start timeout: .* \(408\)$' '' show job-1 "$@" && expect 0 '^idle,0,0 .* 7 errored  worker  limits.never' '' show job-1 -o wide "$@"
}

# A graph, over HTTP and with the commands.
test_graph() {
    serve && write_limits && at=(-s unix:data/quipu.sock) && "$quipu" deploy limits.yaml --activate "${at[@]}" > /dev/null &&
        "$quipu" start limits.start --id job-1 -q "${at[@]}" > /dev/null && take data/quipu.sock limits.slow && local slow=$token && silent data/quipu.sock &&
        expect 0 - - wait job-1 --timeout 90s "${at[@]}" && bring data/quipu.sock && token=$slow && bring data/quipu.sock && said "${at[@]}" && stop TERM &&
        said --db data/quipu.db && expect 0 '' ' 0 errors, 0 warnings' fsck data/quipu.db
}

# Single jobs, with the options of `start` and with `retry` of POST /v1/jobs.
test_single() {
    serve && at=(-s unix:data/quipu.sock) &&
        "$quipu" start limits.never --id idle --attempts 1 --start-timeout 0.2s -q "${at[@]}" > /dev/null &&
        expect 10 - 'is failed: start timeout: no worker took the task within 200 ms' wait idle --timeout 20s "${at[@]}" &&
        curl -s --unix-socket data/quipu.sock --json '{"topic":"limits.slow","id":"slow","retry":{"attempts":1,"timeout":"0.3s"}}' http://localhost/v1/jobs > /dev/null &&
        take data/quipu.sock limits.slow &&
        expect 10 - 'is failed: timeout: the attempt did not end within 300 ms of its start' wait slow --timeout 20s "${at[@]}" &&
        bring data/quipu.sock &&
        for id in idle slow; do "$quipu" show "$id" -o json "${at[@]}" | jq -e '.error.code == 408' > /dev/null || return 1; done
}

# Two servers, one database. The one that has given the task away is killed: the other finds that its time is over.
test_two_servers() {
    local place="$QP_TEST_PG/postgres?schema=time_limits" first
    serve --store "$place" && first=$server || return 1
    mkdir second && cd second && serve --store "$place" && cd .. && write_limits || return 1
    at=(-s unix:second/data/quipu.sock)
    "$quipu" deploy limits.yaml --activate "${at[@]}" > /dev/null && "$quipu" start limits.start --id job-1 -q "${at[@]}" > /dev/null &&
        take data/quipu.sock limits.slow && kill -9 "$first" && { wait "$first" 2> /dev/null || true; } && silent second/data/quipu.sock && expect 0 - - wait job-1 --timeout 120s "${at[@]}" &&
        bring second/data/quipu.sock && said "${at[@]}" && said --db "$place" && expect 0 '' ' 0 errors' fsck "$place"
}

run_tests
