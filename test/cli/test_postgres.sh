#!/bin/bash
# test_postgres.sh - commands on a PostgreSQL database, asked itself and through servers that share it
set -u
if [ -z "${QP_TEST_PG:-}" ]; then
    exec "$(realpath "${QP_BUILD:-build}")/test/tools/withpg" bash "$0"
fi
. test/cli/lib.sh

before_each() {
    place="$QP_TEST_PG/postgres?schema=cli_$1"
}

test_commands() {
    expect 0 '^a$' '' start greet name=Ada --id a --db "$place" &&
        expect 0 '^a +greet +running' '' ls --db "$place" &&
        expect 0 '^id +a$' - show a --db "$place" &&
        expect 3 '' "no job 'b'" show b --db "$place" &&
        expect 0 '^a$' '' cancel a --db "$place" &&
        expect 11 '' 'cancelled' wait a --db "$place" &&
        expect 0 'ok +store' - doctor --db "$place" &&
        expect 2 '' 'a database that others share may get new work at any time.*; next: quipu serve' run --db "$place" &&
        expect 0 '' ' 1 jobs, 0 errors' fsck "$place"
}

test_servers_share_it() {
    serve --store "$place" || return 1
    local first=$url token=$PWD/data/admin.token
    expect 0 '^a$' "no worker serves 'greet'" start greet --id a --server "$first" --token-file "$token" &&
        expect 0 '^a$' '' ls -q --db "$place" &&
        expect 0 '^a$' '' cancel a --db "$place" &&
        expect 11 '' 'cancelled' wait a --server "$first" --token-file "$token"
}

# ask ADDRESS PATH [BODY]: what a server answers, for the administrator's token
ask() {
    curl -s --max-time 60 -H "Authorization: Bearer $(cat "$token")" ${3:+--json "$3"} "$1$2"
}

# until_says SECONDS ADDRESS PATH PATTERN: it does within that time; with a ! before the pattern it says that no more
until_says() {
    local end=$((SECONDS + $1)) not=${4%%[!\!]*}
    until ask "$2" "$3" > said && [ -s said ] && if [ -n "$not" ]; then ! grep -Eq "${4#!}" said; else grep -Eq "$4" said; fi; do
        [ "$SECONDS" -lt "$end" ] || { echo "$2$3 does not say '$4' in time:"; cat said; return 1; }
        sleep 0.1
    done
}

# A worker that was killed, with a task in hand and a call that waits, is there until its lease of 30 s is over and then gone: also at
# the server that it never spoke to. So is its topic; the error of the activity is that of
# this attempt, and the task is there for others.
test_killed_worker() {
    local first second worker from token=$PWD/data/admin.token
    serve --store "$place" && first=$url || return 1
    mkdir second && cd second && serve --store "$place" && second=$url || return 1
    ask "$first" /v1/jobs '{"topic":"greet","id":"a"}' > /dev/null
    from=$SECONDS
    ask "$first" /v1/work '{"worker":"w1","topics":["greet"],"wait":"5s"}' | grep -q '"job":"a"' || return 1
    curl -s -H "Authorization: Bearer $(cat "$token")" --json '{"worker":"w1","topics":["greet"],"wait":"50s"}' "$first/v1/work" &
    worker=$!
    servers+=("$worker")
    until_says 10 "$first" /v1/workers '"name":"w1".*"waiting":1' && until_says 10 "$second" /v1/workers '"name":"w1"' &&
        until_says 10 "$second" /v1/topics '"greet".*"workers":1' || return 1
    kill -9 "$worker" && wait "$worker" 2> /dev/null
    until_says 60 "$second" /v1/workers '!"name":"w1"' && [ $((SECONDS - from)) -ge 29 ] && [ $((SECONDS - from)) -le 45 ] &&
        until_says 5 "$first" /v1/workers '!"name":"w1"' && until_says 10 "$second" /v1/topics '"greet".*"workers":0' &&
        until_says 20 "$second" /v1/jobs/a/activities '"error":\{"code":504,"message":"the lease ran out' &&
        ask "$second" /v1/work '{"worker":"w2","topics":["greet"],"wait":"20s"}' | grep -q '"job":"a"'
}

test_no_password() {
    expect 1 '' 'cannot connect' ls --db 'postgresql://nobody:sesame@127.0.0.1:1/none' && ! grep -q sesame "$TMPDIR/err"
}

run_tests
