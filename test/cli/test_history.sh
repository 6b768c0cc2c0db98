#!/bin/bash
# test_history.sh - a history that is one: every line that was printed while a job ran stands in its history afterwards, byte for byte
set -u
if [ -z "${QP_TEST_PG:-}" ]; then
    exec "$(realpath "${QP_BUILD:-build}")/test/tools/withpg" bash "$0"
fi
. test/cli/lib.sh

# A worker fails three times, a sleep runs out, a signal is waited for, another job is called.
write_drill() {
    cat > drill.yaml << 'END'
app:
  id: drill
  version: '1'
  graphs:
    - subscribes: drill.start
      activities:
        want: { type: trigger }
        pay: { type: worker, topic: bank, retry: { maximumAttempts: 4, initialInterval: 0.05 } }
        nap: { type: hook, sleep: 0.1 }
        ask: { type: hook, sleep: 3600 }
        sub: { type: await, topic: drill.child }
      transitions:
        want: [{ to: pay }]
        pay: [{ to: nap }]
        nap: [{ to: ask }]
        ask: [{ to: sub }]
      hooks:
        drill.ok:
          - to: ask
            conditions:
              match:
                - { expected: '{$job.metadata.jid}', actual: '{$self.hook.data.id}' }
    - subscribes: drill.child
      activities:
        start: { type: trigger }
        done: { type: worker, topic: quipu.echo }
      transitions:
        start: [{ to: done }]
END
}

# worker NAME: answers the topic bank, with an error until the fourth attempt
worker() {
    local results='[]' answer
    while true; do
        answer=$(jq -n --arg name "$1" --argjson results "$results" '{worker: $name, topics: ["bank"], results: $results}' |
            curl -sf --unix-socket data/quipu.sock --json @- http://localhost/v1/work) || { sleep 0.1; continue; }
        results=$(jq -c '[.tasks[] | if .attempt < 4 then {token, status: "error", error: "closed \(.attempt)", code: 503}
            else {token, output: {ok: true}} end]' <<< "$answer")
    done
}

# until_line PATTERN: the history of d1 has such a line
until_line() {
    for _ in $(seq 300); do
        "$quipu" history d1 "${at[@]}" | grep -Eq -- "$1" && return 0
        sleep 0.1
    done
    echo "no line '$1'"
    "$quipu" history d1 "${at[@]}"
    return 1
}

# The lines, without times and without the child's id, which follows from the job's number.
story() {
    sed -E 's/^( *[0-9]+  )[0-9]+(ms|s|[.][0-9]s) +/\1T  /; s/started [0-9-]+ [0-9:]+ UTC/started/; s/[0-9a-f]{8}-[0-9a-f-]{27}/CHILD/' "$1"
}

# drill: the job runs, somebody watches it from its first line on, and all ways to read its history say the same
drill() {
    at=(-s unix:data/quipu.sock)
    write_drill
    "$quipu" deploy drill.yaml --activate "${at[@]}" > /dev/null && "$quipu" start drill.start --id d1 "${at[@]}" > /dev/null || return 1
    "$quipu" watch d1 "${at[@]}" > lines 2> talk &
    local watching=$!
    curl -sN --unix-socket data/quipu.sock -H 'Accept: text/event-stream' http://localhost/v1/jobs/d1/history > stream &
    local streaming=$!
    worker teller &
    servers+=("$watching" "$streaming" "$!")
    until_line 'ask +waits' || return 1
    "$quipu" signal drill.ok id=d1 "${at[@]}" > /dev/null || return 1
    wait "$watching" || { cat lines talk; return 1; }
    wait "$streaming"
    "$quipu" history d1 "${at[@]}" > history && diff lines history || return 1
    story history > told
    diff told - << 'END'
   1  T  want            started
   2  T  want            answered
   3  T  pay             entered
   4  T  pay             attempt 1 failed: closed 1 (503), worker teller; the next one in 50ms
   5  T  pay             attempt 2 failed: closed 2 (503), worker teller; the next one in 100ms
   6  T  pay             attempt 3 failed: closed 3 (503), worker teller; the next one in 200ms
   7  T  pay             answered
   8  T  nap             entered
   9  T  nap             waits for 100ms
  10  T  nap             answered
  11  T  ask             entered
  12  T  ask             waits for the signal drill.ok, key d1, for 1h
  13  T  ask             answered
  14  T  sub             entered
  15  T  sub             started the job CHILD, drill.child
  16  T  sub             answered; the job is completed
END
    [ $? -eq 0 ] || return 1
    # the same entries over SSE, in a list, in an export
    sed -n 's/^data: //p' stream | jq -c 'select(.seq)' > streamed
    "$quipu" history d1 -o jsonl "${at[@]}" > listed && diff streamed listed && jq -e -s 'length == 16' listed > same || return 1
    "$quipu" export d1 "${at[@]}" | jq -c '.journal[]' > exported && diff <(jq -c . listed) exported || return 1
    jq -e -s '.[3].error == {code: 503, message: "closed 1", activity: "pay", address: "pay,0,0"}' listed > same
}

sql_agrees() {
    diff <(jq -c '[.seq,.at,.kind,.status,.address,.ledger,.code,.attempt,.delivery,.worker,.topic,.key,.other,.until,.error,.detail]' listed) \
        <("$quipu" sql "SELECT seq, at, kind, status, address, ledger, code, attempt, delivery, worker, topic, key, other, until, error, detail
            FROM v_events WHERE job='d1' ORDER BY seq" -o json "${at[@]}" | jq -c '.rows[] | .[14] |= (if . then fromjson else . end)')
}

# A job that was made from another one says so, in its first lines and for good.
test_fork() {
    "$quipu" start greet --id first --db f.db > /dev/null && "$quipu" kill first --db f.db > /dev/null &&
        "$quipu" fork first --id second --db f.db > /dev/null && "$quipu" history second --db f.db > before &&
        "$quipu" run --db f.db --exec greet=cat 2> /dev/null && "$quipu" history second --db f.db > after &&
        diff before <(head -n "$(wc -l < before)" after) && story before | grep -q '^   2  T  forked from the job first$' &&
        story after | grep -q '^   5  T  greet           answered; the job is completed$' &&
        story <("$quipu" history first --db f.db) | tail -1 | grep -q '^   5  T  closed.*; the job is interrupted$'
}

test_drill_postgres() {
    serve --store "$QP_TEST_PG/postgres?schema=history" && drill && stop TERM &&
        "$quipu" history d1 --db "$QP_TEST_PG/postgres?schema=history" > from_file && diff lines from_file
}

test_drill_sqlite() {
    serve && drill && sql_agrees && stop TERM && "$quipu" history d1 --db data/quipu.db > from_file && diff lines from_file &&
        "$quipu" fsck --db data/quipu.db > /dev/null
}

run_tests
