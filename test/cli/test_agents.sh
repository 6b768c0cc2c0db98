#!/bin/bash
# test_agents.sh - the port for agents: an instance goes through decisions and tasks over HTTP, with kills of the server between
# its calls, and clients start, find, ask and end instances
set -u
. test/cli/lib.sh
. test/cli/agents.sh

# A decision that was in hand at a kill is given out again, with another uuid; a task that was is the agent's still.
test_kills_between_calls() {
    agents && start "$SEQ" && first=$id && start "$SEQ" && [ "$id" = "$first" ] && job '.name == "Seq"' &&
        says 200 '.branch == {"type":"handle","input":"[1]"} and .properties == "[1]"' GET "/decisions/$uuid/branch" &&
        says 200 '.status == "scheduled"' POST "/decisions/$uuid/execute" "$WORK" && killed &&
        says 409 .error GET "/decisions/$uuid/branch" && job '.action == "DecisionScheduled"' &&
        says 200 '.branch.type == "handle"' GET "/decisions/$uuid/branch" &&
        says 200 '.status == "scheduled"' POST "/decisions/$uuid/execute" "$WORK" &&
        says 200 '. == {}' POST "/decisions/$uuid/branch" '{"properties":"[2]"}' &&
        says 200 '. == {}' GET "/decisions/$uuid/branch" && says 200 '. == {}' GET "/decisions/$uuid/branch" &&
        job '.action == "TaskScheduled" and .name == "T" and .input == "in" and .retryIndex == 1' && task=$uuid &&
        job '.action == "DecisionScheduled"' && skip && killed &&
        says 200 '. == {}' POST "/tasks/$task" '{"status":"completed","output":"done"}' && killed &&
        says 200 '. == {}' POST "/tasks/$task" '{"status":"completed","output":"done"}' &&
        says 409 .error POST "/tasks/$task" '{"status":"completed","output":"other"}' && job . &&
        says 200 '.branch.type == "onSuccess" and .branch.task_output == "done" and .properties == "[2]"' \
            GET "/decisions/$uuid/branch" && says 200 . POST "/decisions/$uuid/branch" '{"output":null}' &&
        says 200 '.branch.type == "handle"' GET "/decisions/$uuid/branch" &&
        says 200 '. == {"status":"completed","properties":"[2]","outputs":["done"]}' POST "/decisions/$uuid/execute" "$WORK" &&
        says 200 . POST "/decisions/$uuid/branch" '{"properties":"[3]","output":"end"}' &&
        says 200 '. == {}' GET "/decisions/$uuid/branch" && says 200 '.action == "None"' GET /env/dev/lang/javascript/job &&
        expect 0 '"status":"completed"' '' show "$first" --decisions -o json --server "$url" &&
        stop TERM && expect 0 '' '0 errors' fsck --db data/quipu.db
}

# What clients ask of running, finished and unknown instances; nothing of dev is there for prod.
test_clients() {
    agents && start "$SEQ" && says 409 .error POST /api/v1/instances "${SEQ/key/other}" &&
        says 200 '.data.name == "Seq" and .data.properties == "[1]"' GET '/api/v1/instances?custom_id=one&name=Seq&' &&
        says 404 '.error == "No workflow instance found with the id : one"' GET '/api/v1/instances?custom_id=one&app_env=prod' &&
        says 200 '. == {}' POST /api/v_newton/events '{"name":"Seq","custom_id":"one","event_name":"E","event_input":"x"}' &&
        says 200 '. == {}' PUT '/api/v_newton/instances?custom_id=one' '{"name":"Seq","mode":"pause"}' &&
        says 200 '.action == "None"' GET /env/dev/lang/Javascript/job &&
        says 200 '. == {}' PUT '/api/v_newton/instances?custom_id=one' '{"name":"Seq","mode":"run"}' && job . &&
        says 200 '. == {}' PUT '/api/v_newton/instances?custom_id=one' '{"name":"Seq","mode":"kill"}' &&
        says 409 .error GET "/decisions/$uuid/branch" &&
        says 200 '. == {}' PUT '/api/v_newton/instances?custom_id=one' '{"name":"Seq","mode":"kill"}' &&
        says 200 '. == {}' POST /api/v1/events '{"name":"Seq","custom_id":"one","event_name":"E"}' &&
        says 404 .error POST /api/v1/events '{"name":"Seq","custom_id":"two","event_name":"E"}' &&
        says 201 .id POST /api/v1/tasks '{"name":"Alone","data":"in","maxProcessingTime":10}' &&
        job '.name == "Alone" and .input == "in"' && says 200 . POST "/tasks/$uuid/beat" '{}' &&
        says 200 . POST "/tasks/$uuid" '{"status":"failed","error":{"name":"E"},"retryDelay":0}' &&
        job '.name == "Alone" and .retryIndex == 2' && says 200 . POST "/tasks/$uuid" '{"status":"completed","output":null}'
}

graphql() {
    says "$1" "$2" POST /graphql "{\"query\":\"mutation (\$input: X) { $3(input: \$input) { id } }\",\"variables\":{\"input\":$4}}"
}

test_graphql() {
    agents && graphql 200 .data.dispatchWorkflow.id dispatchWorkflow '{"name":"W","input":"[]","tag":"t","version":"v2"}' &&
        job '.name == "W_v2"' && graphql 200 .data.sendEventToWorkflows sendEventToWorkflows \
            '{"name":"E","data":"{}","selector":{"name":"W","tag":"t"}}' &&
        graphql 200 .data.pauseWorkflows pauseWorkflows '{"selector":{"name":"W_v2"}}' &&
        graphql 200 .data.resumeWorkflows resumeWorkflows '{"selector":{"tag":"t"}}' &&
        graphql 200 .data.terminateWorkflows terminateWorkflows '{"selector":{"tag":"t"}}' &&
        graphql 200 '.errors[0].type == "NOT_FOUND" and .data == {"terminateWorkflows":null}' terminateWorkflows '{"selector":{"tag":"t"}}' &&
        graphql 200 '.errors[0].type == "BAD_INPUT"' terminateWorkflows '{"selector":{}}' &&
        graphql 200 .data.dispatchTask.id dispatchTask '{"name":"T","input":"in"}' &&
        graphql 200 '.errors[0].message' scheduleWorkflow '{"name":"W","cron":"* * * * *"}' &&
        graphql 200 '.errors[0].type == "UNKNOWN_FIELD"' other '{}' && says 400 '.errors[0].message' POST /graphql '{"query":'
}

EVENT='{"name":"E","data":"1","selector":{"name":"W"},"intentId":"k"}'

# One that is started without a version is that of the first decision's script from then on; an event with a key comes once.
test_pinned_name() {
    agents && graphql 200 .data.dispatchWorkflow.id dispatchWorkflow '{"name":"W","input":"[7]"}' &&
        id=$(jq -r .data.dispatchWorkflow.id <<< "$answer") && job '.name == "W"' &&
        says 200 '.name == "W" and .pinned == false and .branch.input == "[7]" and .properties == null' \
            GET "/decisions/$uuid/branch" &&
        says 400 .error POST "/decisions/$uuid/branch" '{"name":""}' &&
        says 400 .error POST "/decisions/$uuid/branch" '{"name":1}' &&
        says 200 . POST "/decisions/$uuid/execute" "$WORK" &&
        says 200 . POST "/decisions/$uuid/branch" '{"name":"W_v1","properties":"{}"}' &&
        says 200 '. == {}' GET "/decisions/$uuid/branch" &&
        graphql 200 .data.sendEventToWorkflows sendEventToWorkflows "$EVENT" &&
        graphql 200 .data.sendEventToWorkflows sendEventToWorkflows "$EVENT" &&
        graphql 200 '.errors[0].type == "CONFLICT"' sendEventToWorkflows "${EVENT/E/F}" &&
        job '.name == "W_v1"' && killed && job '.name == "W_v1"' &&
        says 200 '.name == "W_v1" and .pinned and .branch.event_name == "E"' GET "/decisions/$uuid/branch" &&
        says 200 . POST "/decisions/$uuid/branch" '{"name":"W_v2","output":null}' && skip &&
        expect 0 '"workflow_name":"W_v1","canonical_name":"W"' '' show "$id" --decisions -o json --server "$url" &&
        [ "$(jq '[.branches[] | select(.type == "onEvent")] | length' "$TMPDIR/out")" = 1 ]
}

test_token() {
    printf 'sesame\n' > secret && chmod 600 secret && agents --agent-token secret --agent-env prod || return 1
    says 401 .error GET /env/prod/lang/php/job && says 401 .error POST /api/v1/tasks '{"name":"T"}' || return 1
    curl -sS -H 'Authorization: Bearer sesame' "$agents/env/prod/lang/php/job" | grep -q None
    expect 2 '' 'there is no --agent-port' serve --agent-env dev && chmod 644 secret &&
        expect 5 '' "others may read it" serve --agent-port 0 --agent-token secret --data-dir other
}

run_tests
