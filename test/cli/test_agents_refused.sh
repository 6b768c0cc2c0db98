#!/bin/bash
# test_agents_refused.sh - broken and hostile agents: each line of what docs/agents.md says is refused, with kills of the server in
# between; nothing is lost, and the instance goes on to its end
set -u
. test/cli/lib.sh
. test/cli/agents.sh

# The agent that does it right: T once, then the end. Until no job comes any more.
drive() {
    local type
    while ask GET '/env/dev/lang/javascript/job?wait=500ms' && [ "$status" = 200 ] && [ "$answer" != '{"action":"None"}' ]; do
        uuid=$(jq -r .uuid <<< "$answer")
        if [ "$(jq -r .action <<< "$answer")" = TaskScheduled ]; then
            ask POST "/tasks/$uuid" "$DONE"
            continue
        fi
        while ask GET "/decisions/$uuid/branch" && [ "$status" = 200 ] && [ "$answer" != '{}' ]; do
            type=$(jq -r .branch.type <<< "$answer")
            [ "$type" = handle ] || { ask POST "/decisions/$uuid/branch" '{"output":null}'; continue; }
            ask POST "/decisions/$uuid/execute" "$WORK"
            if [ "$(jq -r .status <<< "$answer")" = completed ]; then
                ask POST "/decisions/$uuid/branch" '{"output":"end"}'
            else
                ask POST "/decisions/$uuid/branch" '{}'
            fi
        done
    done
}

# ends: it goes on to its end, with one work, and the store is good
ends() {
    drive && says 200 '.status == "completed" and .output == "end" and (.statuses | length) == 1' GET "/api/v1/instances/$id/decisions" &&
        stop TERM && expect 0 '' '0 errors' fsck --db data/quipu.db
}

# begun: an instance whose first decision is in hand, with handle
begun() {
    agents "$@" && start "$SEQ" && job '.action == "DecisionScheduled"' && decision=$uuid &&
        says 200 '.branch.type == "handle"' GET "/decisions/$decision/branch"
}

# at_work: one whose task is in hand
at_work() {
    begun "$@" && says 200 '.status == "scheduled"' POST "/decisions/$decision/execute" "$WORK" &&
        says 200 . POST "/decisions/$decision/branch" '{}' && says 200 '. == {}' GET "/decisions/$decision/branch" &&
        job '.action == "TaskScheduled"' && task=$uuid
}

# parked REASON: it is parked for this; then it gets another attempt
parked() {
    expect 0 "$1" '' ls --where 'status=parked' -o json --server "$url" && says 200 . POST "/api/v1/instances/$id/retry" '{}'
}

# A uuid that was never given out, one with another letter or a byte changed, and one of a task where a decision is meant.
test_unknown_uuids() {
    at_work || return 1
    local wrong
    for wrong in nonsense d-w1.1.1.1.00.00 "${decision%?}x" "t-${decision#d-}" "$task" '%20'; do
        says 404 .error GET "/decisions/$wrong/branch" && says 404 .error POST "/decisions/$wrong/execute" "$WORK" &&
            says 404 .error POST "/decisions/$wrong/branch" '{}' && says 404 .error POST "/decisions/$wrong/fail" '{}' || return 1
    done
    for wrong in nonsense "${task%?}x" "$decision"; do
        says 404 .error POST "/tasks/$wrong" "$DONE" && says 404 .error POST "/tasks/$wrong/beat" '{}' || return 1
    done
    says 200 . POST "/tasks/$task" "$DONE" && ends
}

# What was given out again belongs to its last uuid: a decision after a kill, a task after its lease.
test_no_longer_ours() {
    begun --agent-lease 1s && killed --agent-lease 1s && job . && says 409 .error GET "/decisions/$decision/branch" &&
        says 409 .error POST "/decisions/$decision/execute" "$WORK" && says 409 .error POST "/decisions/$decision/branch" '{}' &&
        says 409 .error POST "/decisions/$decision/fail" '{}' && decision=$uuid && says 200 . GET "/decisions/$decision/branch" &&
        says 200 . POST "/decisions/$decision/execute" "$WORK" && says 200 . POST "/decisions/$decision/branch" '{}' &&
        says 200 . GET "/decisions/$decision/branch" && job '.name == "T"' && task=$uuid && killed &&
        job '.action == "DecisionScheduled"' && skip &&
        job '.name == "T" and .retryIndex == 1' && [ "$uuid" != "$task" ] && says 409 .error POST "/tasks/$task" "$DONE" &&
        says 409 .error POST "/tasks/$task/beat" '{}' && says 200 . POST "/tasks/$uuid" "$DONE" && ends
}

test_of_an_ended_instance() {
    at_work && says 200 . PUT '/api/v1/instances?custom_id=one' '{"mode":"kill"}' && says 409 .error POST "/tasks/$task" "$DONE" &&
        says 409 .error POST "/tasks/$task/beat" '{}' && start "${SEQ/key/other}" && job . && says 200 .branch GET "/decisions/$uuid/branch" &&
        says 200 . PUT '/api/v1/instances?custom_id=one' '{"mode":"kill"}' && says 200 . POST "/decisions/$uuid/branch" '{"output":null}' &&
        says 409 .error GET "/decisions/$uuid/branch" && says 409 .error POST "/decisions/$uuid/fail" '{}'
}

test_branch_again() {
    begun && says 200 '.branch.type == "handle" and .properties == "[1]"' GET "/decisions/$decision/branch" &&
        says 200 . POST "/decisions/$decision/execute" "$WORK" && says 200 '.branch.type == "handle"' GET "/decisions/$decision/branch" &&
        says 200 . POST "/decisions/$decision/branch" '{}' && says 200 '. == {}' GET "/decisions/$decision/branch" &&
        says 200 '. == {}' GET "/decisions/$decision/branch" && says 409 .error POST "/decisions/$decision/branch" '{}' && killed &&
        says 409 .error GET "/decisions/$decision/branch" && ends
}

# Out of order: works and ends without a branch in hand.
test_no_branch_in_hand() {
    agents && start "$SEQ" && job . && says 409 .error POST "/decisions/$uuid/execute" "$WORK" &&
        says 409 .error POST "/decisions/$uuid/branch" '{}' && says 200 .branch GET "/decisions/$uuid/branch" &&
        says 200 . POST "/decisions/$uuid/branch" '{}' && says 409 .error POST "/decisions/$uuid/branch" '{"properties":"[9]"}' &&
        says 409 .error POST "/decisions/$uuid/execute" "$WORK" && says 200 '. == {}' GET "/decisions/$uuid/branch" &&
        says 200 '.properties == [{"key":0,"values":"[1]"}] and .statuses == []' GET "/api/v1/instances/$id/decisions" &&
        says 200 . POST /api/v1/events '{"custom_id":"one","event_name":"E"}' && job . && skip && stop TERM
}

# None of these leaves anything in the draft.
test_works_at_fault() {
    local bad
    begun || return 1
    for bad in '[]' '{}' 'null' '[1]' '[{"position":"1p0"}]' '[{"name":"T"}]' '[{"name":"","position":"1p0"}]' \
        '[{"name":"T","position":"1p0","type":"other"}]' '[{"name":"T","position":"1p0","sync":1}]' \
        '[{"name":"A","position":"1p0"},{"name":"B","position":"1p0"}]' '[{"name":"T","position":"1p0","input":{}}]' \
        '[{"name":"A","position":"1p0","sync":true},{"name":"B","position":"1p1","sync":false}]' \
        '[{"name":"W","position":"1p0","type":"wait","duration":-1}]' '[{"name":"T","position":"1p0"' '[{"name":"T",}]' ''; do
        says 400 .error POST "/decisions/$decision/execute" "$bad" || return 1
    done
    jq -nc '[range(2001) | {name: "T", position: "\(.)"}]' > many.json
    says 400 .error POST "/decisions/$decision/execute" @many.json && says 400 .error POST "/decisions/$decision/branch" '{"properties":7}' &&
        says 400 .error POST "/decisions/$decision/branch" '{"output":{}}' && says 400 .error POST "/decisions/$decision/branch" '[]' &&
        says 200 '.status == "scheduled"' POST "/decisions/$decision/execute" "$WORK" &&
        says 200 . POST "/decisions/$decision/branch" '{}' && says 200 '. == {}' GET "/decisions/$decision/branch" && ends
}

# The code of a known work has changed: parked at once. A fail that follows is 409; a retry repeats the decision.
test_modified() {
    at_work && says 200 . POST "/tasks/$task" "$DONE" && job . && says 200 .branch GET "/decisions/$uuid/branch" &&
        says 200 . POST "/decisions/$uuid/branch" '{"output":null}' && job_of_handle &&
        says 200 '. == {"status":"modified"}' POST "/decisions/$uuid/execute" '[{"name":"Other","input":"in","position":"1p0"}]' &&
        says 409 .error POST "/decisions/$uuid/fail" '{"error":{"name":"ModifiedDecider"}}' && says 409 .error GET "/decisions/$uuid/branch" &&
        parked '"parked":"modified' && ends
}

# Until the branch in hand is that of handle.
job_of_handle() {
    while says 200 . GET "/decisions/$uuid/branch"; do
        [ "$answer" != '{}' ] || { job . || return 1; continue; }
        jq -e '.branch.type == "handle"' <<< "$answer" > /dev/null && return 0
        says 200 . POST "/decisions/$uuid/branch" '{"output":null}' || return 1
    done
}

# Nothing of a decision that failed is applied.
test_fail() {
    begun && says 200 . POST "/decisions/$decision/execute" '[{"name":"Other","position":"9"}]' &&
        says 400 .error POST "/decisions/$decision/fail" '{"error":"text"}' &&
        says 200 '. == {}' POST "/decisions/$decision/fail" '{"error":{"code":7,"name":"Oops","message":"m"}}' &&
        says 409 .error POST "/decisions/$decision/fail" '{}' && says 409 .error POST "/decisions/$decision/branch" '{}' && killed &&
        says 200 '.action == "None"' GET /env/dev/lang/javascript/job && says 200 '.statuses == []' GET "/api/v1/instances/$id/decisions" &&
        parked '"parked":"decision_failed: Oops"' && ends
}

# The same result again is good, also behind a kill; another one is not, and what is none leaves the task where it is.
test_results_again() {
    local bad
    at_work || return 1
    for bad in '{}' '[]' '{"status":"lost"}' '{"status":"decided"}' '{"status":"completed","output":{}}' \
        '{"status":"failed","error":"text"}' '{"status":7}' '{"status":"completed"'; do
        says 400 .error POST "/tasks/$task" "$bad" || return 1
    done
    says 200 '. == {}' POST "/tasks/$task" "$DONE" && says 200 '. == {}' POST "/tasks/$task" "$DONE" && killed &&
        says 200 '. == {}' POST "/tasks/$task" "$DONE" && says 409 .error POST "/tasks/$task" '{"status":"completed","output":"other"}' &&
        says 409 .error POST "/tasks/$task" '{"status":"failed"}' && says 409 .error POST "/tasks/$task/beat" '{}' && ends
}

# What a task chooses for its next attempt. What is no number from 0 on fails it for that reason.
test_retry_delay() {
    local name
    name=$(head -c 5000 /dev/zero | tr '\0' x)
    at_work && says 200 . POST "/tasks/$task" '{"status":"failed","retryDelay":0}' && says 200 . POST "/tasks/$task" '{"status":"failed","retryDelay":0}' &&
        says 409 .error POST "/tasks/$task" '{"status":"failed","retryDelay":1}' && next_task 2 &&
        says 200 . POST "/tasks/$uuid" "{\"status\":\"failed\",\"error\":{\"name\":\"$name\"},\"retryDelay\":0.1}" && next_task 3 || return 1
    for delay in '"soon"' -1 true null false; do
        says 200 . POST "/tasks/$uuid" "{\"status\":\"failed\",\"error\":{\"name\":\"E\"},\"retryDelay\":$delay}" && drive &&
            says 200 '.statuses[0].status == "failed"' GET "/api/v1/instances/$id/decisions" || return 1
        case $delay in
        null | false) jq -e '.statuses[0].error.name == "E"' <<< "$answer" > /dev/null || return 1 ;;
        *) jq -e '.statuses[0].error.name == "retry_delay"' <<< "$answer" > /dev/null || return 1 ;;
        esac
        parked '"parked":"work_failed T"' && next_task 1 || return 1
    done
    says 200 . POST "/tasks/$uuid" "$DONE" && ends
}

# next_task INDEX: decisions are made until the task comes, with this retryIndex
next_task() {
    while job .; do
        [ "$(jq -r .action <<< "$answer")" = DecisionScheduled ] || { jq -e ".retryIndex == $1" <<< "$answer" > /dev/null; return; }
        skip_but_handle || return 1
    done
}

skip_but_handle() {
    while says 200 . GET "/decisions/$uuid/branch" && [ "$answer" != '{}' ]; do
        if [ "$(jq -r .branch.type <<< "$answer")" = handle ]; then
            says 200 . POST "/decisions/$uuid/execute" "$WORK" && says 200 . POST "/decisions/$uuid/branch" '{}' || return 1
        else
            says 200 . POST "/decisions/$uuid/branch" '{"output":null}' || return 1
        fi
    done
}

# text SIZE KEY: an object with a text of so many bytes, in KEY.json
text() {
    { printf '{"%s":"' "$2" && head -c "$1" /dev/zero | tr '\0' x && printf '"}'; } > "$2.json"
}

# 10 MiB of properties, in one text or one body; a text of 1 MiB is the largest.
test_too_large() {
    begun && text $((10 * 1048576)) properties && says 413 .error POST "/decisions/$decision/branch" @properties.json &&
        text $((1048576 + 1)) properties && says 413 .error POST "/decisions/$decision/branch" @properties.json &&
        text $((1048576 + 1)) data && says 413 .error POST /api/v1/tasks @data.json &&
        jq -nc '[range(5) | {name: "T", position: "\(.)", input: ("x" * 1000000)}]' > works.json &&
        says 413 .error POST "/decisions/$decision/execute" @works.json &&
        says 200 '.status == "scheduled"' POST "/decisions/$decision/execute" "$WORK" && text 1048576 properties &&
        says 200 . POST "/decisions/$decision/branch" @properties.json && says 200 '. == {}' GET "/decisions/$decision/branch" &&
        says 200 '.properties[1].values | length == 1048576' GET "/api/v1/instances/$id/decisions" && ends
}

# More than one commit takes: 413, and parked with that word. As many new works as a decision may have are more than that.
test_decision_too_large() {
    agents && start "$SEQ" && job . || return 1
    local i
    for i in $(seq 12); do
        says 200 . POST /api/v1/events '{"custom_id":"one","event_name":"E"}' || return 1
    done
    skip && job . || return 1
    for i in $(seq 12); do
        { printf '{"output":null,"properties":"%s' "$i" && head -c 1000000 /dev/zero | tr '\0' x && printf '"}'; } > body.json
        says 200 .branch GET "/decisions/$uuid/branch" && says 200 . POST "/decisions/$uuid/branch" @body.json || return 1
    done
    says 413 '.error | startswith("decision_too_large")' GET "/decisions/$uuid/branch" && says 409 .error GET "/decisions/$uuid/branch" &&
        parked '"parked":"decision_failed: decision_too_large"' && job . && says 200 .branch GET "/decisions/$uuid/branch" || return 1
    for i in 1 2 3; do
        jq -nc --arg i "$i" '[range(2000) | {name: "T", position: "\($i)-\(.)"}]' > works.json
        ask POST "/decisions/$uuid/execute" @works.json
    done
    [ "$status" = 413 ] && parked '"parked":"decision_failed: decision_too_large"' && job . && skip && stop TERM &&
        expect 0 '' '0 errors' fsck --db data/quipu.db
}

# Half a body, then the end of the connection: nothing was said.
test_half_a_body() {
    at_work || return 1
    exec 7<> "/dev/tcp/127.0.0.1/${agents##*:}" &&
        printf 'POST /tasks/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n{"status":"compl' "$task" >&7 &&
        exec 7>&- && says 200 '.statuses[0].status == "scheduled"' GET "/api/v1/instances/$id/decisions" &&
        says 200 . POST "/tasks/$task/beat" '{}' && says 200 . POST "/tasks/$task" "$DONE" && ends
}

# Names that are none, methods and addresses that are not there, a page of another origin, a body that is not called JSON.
test_requests_at_fault() {
    begun && says 404 .error GET /v1/jobs && says 405 .error DELETE "/tasks/x" && says 400 .error GET "/env/dev/lang/a:b/job" &&
        says 413 .error GET "/env/$(head -c 300 /dev/zero | tr '\0' x)/lang/php/job" && says 400 .error GET '/env/dev/lang/php/job?wait=soon' &&
        says 400 .error POST /api/v1/instances '{"programming_language":"Php"}' && says 400 .error POST /api/v1/instances '{"name":7}' &&
        says 400 .error PUT '/api/v1/instances?custom_id=one' '{"mode":"stop"}' && says 400 .error GET /api/v1/instances || return 1
    [ "$(curl -s -o /dev/null -w '%{http_code}' -H 'Origin: http://elsewhere' "$agents/env/dev/lang/javascript/job")" = 403 ] &&
        [ "$(curl -s -o /dev/null -w '%{http_code}' -d '{}' "$agents/tasks/x")" = 415 ] &&
        [ "$(curl -s -o /dev/null -w '%{http_code}' -H 'Host: elsewhere' "$agents/env/dev/lang/javascript/job")" = 421 ] &&
        says 200 . POST "/decisions/$decision/branch" '{}' && skip && stop TERM
}

# A decision that no call comes for in a minute is another agent's.
test_given_back() {
    [ "${QP_LANE:-check}" = torture ] || return 0
    begun && uuid= && sleep 55 && says 200 . GET "/decisions/$decision/branch" && sleep 61 && job . && [ "$uuid" != "$decision" ] &&
        says 409 .error POST "/decisions/$decision/branch" '{}' && skip_but_handle && ends
}


run_tests
