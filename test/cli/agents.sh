# agents.sh - what the tests of the port for agents share; each reads it behind lib.sh

# agents [ARGUMENT...]: a server with a port for agents, at $agents
agents() {
    serve --no-auth --agent-port 0 "$@" && agents=$(sed -n 's/^serving agents on //p' serve.out) && [ -n "$agents" ]
}

killed() {
    stop KILL
    agents "$@"
}

# ask METHOD PATH [BODY]: the answer in $answer, its status in $status; a body @FILE is that of the file
ask() {
    local body=()
    [ $# -lt 3 ] || body=(-H 'Content-Type: application/json' -H 'Expect:' --data-binary "$3")
    answer=$(curl -sS -X "$1" -w '\n%{http_code}' "${body[@]}" "$agents$2")
    status=${answer##*$'\n'}
    answer=${answer%$'\n'*}
}

# says STATUS JQ-FILTER METHOD PATH [BODY]: the answer has this status, and the filter is true of it
says() {
    local want=$1 filter=$2 body=${5-}
    shift 2
    ask "$@"
    [ "$status" = "$want" ] && jq -e "$filter" <<< "$answer" > /dev/null && return 0
    echo "$1 $2 ${body:0:200}: $status $answer instead of $want $filter"
    return 1
}

# job FILTER: the next job is one of which this is true; $uuid
job() {
    says 200 "$1" GET '/env/dev/lang/javascript/job?wait=20s' && uuid=$(jq -r .uuid <<< "$answer")
}

start() {
    says 201 .id POST "/api/v_newton/instances?app_env=dev&app_id=x&" "$1" && id=$(jq -r .id <<< "$answer")
}

# skip: the decision in hand is ended, all its branches without a work
skip() {
    while says 200 . GET "/decisions/$uuid/branch" && [ "$answer" != '{}' ]; do
        says 200 '. == {}' POST "/decisions/$uuid/branch" '{"output":null}' || return 1
    done
}

SEQ='{"programming_language":"Javascript","name":"Seq","data":"[1]","custom_id":"one","intent_id":"key"}'
WORK='[{"name":"T","input":"in","position":"1p0"}]'
DONE='{"status":"completed","output":"done"}'
