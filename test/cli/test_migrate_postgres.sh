#!/bin/bash
# test_migrate_postgres.sh - quipu migrate and quipu fsck with a database: there and back, what is refused, no passwords
#
# Each test has a file and a schema of
# its own. The cluster is the one that QP_TEST_PG names, else one that withpg starts for this script.
set -u
build=$(realpath "${QP_BUILD:-build}")
if [ -z "${QP_TEST_PG:-}" ]; then
    exec "$build/test/tools/withpg" bash "$0"
fi
. test/cli/lib.sh
start=$TMPDIR/start.db
database=$QP_TEST_PG/postgres
secret=${database/postgres@/postgres:sesame@} # the cluster asks for no password: any will do

# No stream may have the password.
expect_no_secret() {
    expect "$@" && ! grep -q sesame "$TMPDIR/out" "$TMPDIR/err"
}

ask() {
    psql -qAtX -v ON_ERROR_STOP=1 "$database" -c "$1"
}

test_there_and_back() {
    expect_no_secret 0 "^moved [0-9]+ rows, 1 jobs among them, to postgresql://postgres@127.0.0.1:[0-9]+/postgres\?schema=$schema\$" \
        "$PWD/a.db is for reading only now" migrate --from sqlite:a.db --to "$secret?schema=$schema" &&
        expect_no_secret 0 "" " 1 jobs, 0 errors" fsck "$secret?schema=$schema" &&
        expect_no_secret 0 "" " 1 jobs, 0 errors" fsck --db sqlite:a.db &&
        [ "$(ask "SELECT count(*) FROM $schema.job")" = 1 ] &&
        "$build/examples/hello" "$database?schema=$schema" > hello.out && matches 'completed: "Hello, Ada"' hello.out &&
        ! "$build/examples/hello" a.db > hello.out 2>&1 && matches "was moved to postgresql://postgres@127" hello.out &&
        expect_no_secret 0 "^moved" "copied: [0-9]+ rows, ([0-9]+) of \1 tables" migrate --from "$secret?schema=$schema" --to b.db &&
        expect_no_secret 0 "" " 1 jobs, 0 errors" fsck b.db &&
        expect_no_secret 0 "" " 1 jobs, 0 errors" fsck "$database?schema=$schema" &&
        "$build/examples/hello" b.db > hello.out && matches 'completed: "Hello, Ada"' hello.out &&
        ! "$build/examples/hello" "$secret?schema=$schema" > hello.out 2>&1 && matches "was moved to $PWD/b.db" hello.out &&
        [ "$(ask "SELECT count(*) FROM $schema.audit WHERE convert_from(target,'UTF8') LIKE '%sesame%'")" = 0 ] &&
        ! grep -q sesame a.db b.db hello.out
}

test_schema_to_schema() {
    expect_no_secret 0 "^moved" "copied" migrate --from a.db --to "$database?schema=${schema}_1" &&
        expect_no_secret 0 "^moved" "copied" migrate --from "$database?schema=${schema}_1" --to "$database?schema=${schema}_2" &&
        expect_no_secret 4 "" "was moved to postgresql://.*schema=${schema}_2 already" \
            migrate --from "$database?schema=${schema}_1" --to c.db &&
        "$build/examples/hello" "$database?schema=${schema}_2" > /dev/null
}

test_json() {
    expect_no_secret 0 "^\{\"from\":\"$PWD/a.db\",\"to\":\"postgresql://postgres@127.0.0.1:[0-9]+/postgres\?schema=$schema\",\"source\":\"moved\",\"checked\":true," \
        "copied" migrate --from a.db --to "$secret?schema=$schema" -o json &&
        expect_no_secret 0 '"ok":true,"jobs":1,"errors":0' "1 jobs" fsck "$secret?schema=$schema" -o json
}

test_refused_sources() {
    expect_no_secret 3 "" "there is no store in this database" migrate --from "$secret?schema=none" --to b.db &&
        expect_no_secret 1 "" "127.0.0.1" migrate --from "postgresql://postgres:sesame@127.0.0.1:1/none" --to b.db &&
        expect_no_secret 2 "" "not one that PostgreSQL takes" migrate --from "$secret?what=ever" --to b.db &&
        expect_no_secret 3 "" "there is no store in this database" fsck "$secret?schema=none" &&
        [ ! -e b.db ]
}

# A run whose lease lasts, whoever it is of; and a commit that does not end.
test_a_database_at_work_is_refused() {
    expect_no_secret 0 "^moved" "copied" migrate --from a.db --to "$database?schema=$schema" &&
        ask "INSERT INTO $schema.node(ns,epoch,name,lease_until,rev) VALUES(0,99,'busy',(extract(epoch FROM now())*1000)::bigint+600000,1)" &&
        expect_no_secret 4 "" "run 99 \(busy\) is at work; stop it first" migrate --from "$secret?schema=$schema" --to b.db &&
        [ ! -e b.db ] && ask "UPDATE $schema.node SET lease_until=1" &&
        expect_no_secret 0 "^moved" "copied" migrate --from "$secret?schema=$schema" --to b.db
}

# The same store by two names, which no comparison of names finds.
test_same_place_twice() {
    expect_no_secret 0 "^moved" "copied" migrate --from a.db --to "$database?schema=$schema" &&
        expect_no_secret 4 "" "another quipu migrate has it" migrate --from "$database?schema=$schema" --to "$secret?schema=$schema" &&
        expect_no_secret 2 "" "are the same" migrate --from "$secret?schema=$schema" --to "$secret?schema=$schema"
}

test_half_of_a_copy() {
    expect_no_secret 0 "^moved" "copied" migrate --from a.db --to "$database?schema=$schema" &&
        ask "UPDATE $schema.head SET clean=2; DELETE FROM $schema.act" &&
        expect_no_secret 1 "" "is half of a copy that was cut off" fsck "$secret?schema=$schema" &&
        expect_no_secret 0 "^moved" "copied" migrate --from a.db --to "$database?schema=$schema" &&
        expect_no_secret 0 "" " 1 jobs, 0 errors" fsck "$secret?schema=$schema"
}

test_violations() {
    expect_no_secret 0 "^moved" "copied" migrate --from a.db --to "$database?schema=$schema" &&
        ask "UPDATE $schema.job SET sem=5" &&
        expect_no_secret 13 "^S1 error" "1 jobs, [1-9]" fsck "$database?schema=$schema" &&
        expect_no_secret 13 "" "breaks rules of the protocol" migrate --from "$database?schema=$schema" --to b.db &&
        [ "$(ask "SELECT clean FROM $schema.head")" = 0 ]
}

test_dump_sql() {
    expect_no_secret 0 "^CREATE SCHEMA IF NOT EXISTS quipu;" "" migrate --dump-sql &&
        expect_no_secret 0 "^CREATE SCHEMA IF NOT EXISTS $schema;" "" migrate --dump-sql --to "postgresql://nobody:sesame@nowhere/x?schema=$schema" &&
        psql -qX -v ON_ERROR_STOP=1 "$database" -f "$TMPDIR/out" > /dev/null &&
        expect_no_secret 0 "^moved" "copied" migrate --from a.db --to "$database?schema=$schema" &&
        expect_no_secret 2 "" "letters, digits and _" migrate --dump-sql --to "$secret?schema=no-way" &&
        expect_no_secret 2 "" "is for a database" migrate --dump-sql --to b.db
}

"$build/examples/hello" "$start" > /dev/null || exit 1

before_each() {
    cp "$start" a.db && printf 'quipu 1\n' > a.db-qplock
    schema=$1
}

run_tests
