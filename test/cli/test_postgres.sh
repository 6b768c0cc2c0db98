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
        expect 2 '' 'nobody knows when nothing is left to do; next: quipu serve' run --db "$place" &&
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

test_no_password() {
    expect 1 '' 'cannot connect' ls --db 'postgresql://nobody:sesame@127.0.0.1:1/none' && ! grep -q sesame "$TMPDIR/err"
}

run_tests
