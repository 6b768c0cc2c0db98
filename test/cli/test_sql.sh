#!/bin/bash
# test_sql.sh - questions in SQL: on a file and on a server, in every output, and what is refused
set -u
. test/cli/lib.sh

sql() {
    local status=$1 out=$2 err=$3
    shift 3
    expect "$status" "$out" "$err" sql "$@" $where
}

body() {
    for id in a b; do "$quipu" start greet n:=1 --id $id $where > /dev/null || return 1; done
    "$quipu" cancel b --reason 'so, "so"' $where > /dev/null &&
        sql 0 '^id  status +error$' '' 'SELECT id, status, error FROM v_jobs ORDER BY id' &&
        [ "$(sed -n 2p "$TMPDIR/out")" = 'a   running' ] &&
        sql 0 '^b,"so, ""so"""$' '' "SELECT id, json_extract(error,'$.message') AS error FROM v_jobs WHERE status='cancelled'" -o csv &&
        [ "$(head -1 "$TMPDIR/out")" = id,error ] &&
        sql 0 '^\{"id":"a","id_2":"a","z":null\}$' '' "SELECT id, id, NULL AS z FROM v_jobs WHERE id='a'" -o jsonl &&
        sql 0 '^\{"columns":\["n"\],"rows":\[\[2\]\]\}$' '' 'SELECT count(*) AS n FROM v_jobs' -o json &&
        sql 0 '^columns:$' '' 'SELECT 1' -o yaml && sql 0 '^x$' '' "SELECT 'x'" -q && sql 0 '^x$' '' "SELECT 1 AS x" -o table &&
        sql 0 '^a$' 'there are more rows: say --limit' 'SELECT id FROM v_jobs ORDER BY id' --limit 1 &&
        echo "SELECT 'from a file' AS x" > q.sql && sql 0 '^from a file$' '' @q.sql && stdin=q.sql sql 0 '^from a file$' '' - &&
        sql 2 '' 'only SELECT, and only from v_jobs.*next: quipu help sql' 'SELECT hash FROM qp_access' &&
        sql 2 '' 'no such column: nope' 'SELECT nope FROM v_jobs' && sql 2 '' 'SELECT is missing' &&
        sql 2 '' "'gone.sql': No such file" @gone.sql && sql 2 '' 'output must be text' 'SELECT 1' -o xml &&
        sql 2 '' '--limit must be between 1 and 100000' 'SELECT 1' --limit 0 && sql 2 '' 'timeout: it is' 'SELECT 1' --timeout 1h &&
        sql 1 '' 'took too long' 'WITH r(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM r) SELECT count(*) FROM r' --timeout 100ms
}

test_on_a_file() {
    where="--db f.db"
    body && expect 0 '' ' 0 errors' fsck f.db && expect 3 '' 'there is no such store' sql 'SELECT 1' --db gone.db && [ ! -e gone.db ]
}

test_on_a_server() {
    serve || return 1
    where="--server unix:data/quipu.sock"
    body || return 1
    "$quipu" tokens create --role operator $where > operator.token && chmod 600 operator.token &&
        expect 5 '' 'lacks the scope admin' sql 'SELECT 1' --server "$url" --token-file operator.token &&
        "$quipu" tokens create --role admin --namespaces billing $where > some.token && chmod 600 some.token &&
        expect 5 '' - sql 'SELECT 1' --server "$url" --token-file some.token
}

# The words of the views are those of the API.
test_views_say_what_the_api_says() {
    where="--db f.db"
    for id in a b c d; do "$quipu" start greet --id $id --attempts 1 $where > /dev/null || return 1; done
    "$quipu" cancel a $where > /dev/null && "$quipu" kill b $where > /dev/null && "$quipu" pause c $where > /dev/null &&
        "$quipu" start bad --id e --attempts 1 $where > /dev/null &&
        "$quipu" run $where --exec greet=cat --exec bad=false 2> /dev/null
    "$quipu" start later --id f --delay 1h $where > /dev/null || return 1
    diff <("$quipu" ls -o jsonl $where | jq -c '[.id,.workflow,.status,.started_at,.updated_at,.ended_at,.priority,.open,.seq]' | sort) \
        <("$quipu" sql 'SELECT id, workflow, status, started_at, updated_at, ended_at, priority, open, seq FROM v_jobs' -o json $where |
            jq -c '.rows[]' | sort) || return 1
    for id in a b c d e f; do
        diff <("$quipu" history $id -o jsonl $where | jq -c '[.seq,.at,.kind,.status,.address,.ledger,.code,.attempt,.until,.detail]') \
            <("$quipu" sql "SELECT seq, at, kind, status, address, ledger, code, attempt, until, detail FROM v_events WHERE job='$id' ORDER BY seq" -o json $where |
                jq -c '.rows[]') || { echo "events of $id"; return 1; }
        diff <("$quipu" sql "SELECT address, topic, ledger, task, failures, error, code, entered_at, answered_at FROM v_activities
                WHERE job='$id' ORDER BY address" -o json $where | jq -c '.rows[] | .[5] |= (if . then fromjson else . end)') \
            <("$quipu" export $id $where | jq -c '.activities|sort_by(.address)[]|[.address,.topic,.ledger,.task,.failures,.error,.code,.entered_at,.answered_at]') ||
            { echo "activities of $id"; return 1; }
    done
}

run_tests
