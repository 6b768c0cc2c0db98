#!/bin/bash
# test_migrate.sh - quipu migrate as a shell sees it: a file moves and works on, bad input, output and exit codes
#
# The file to start from is made by the example hello, which runs one job.
set -u
. test/cli/lib.sh
start=$TMPDIR/start.db

# The rows of all tables of the first file are those of the second, but for the head row, which says who has it open.
same_rows() {
    local table
    for table in $(sqlite3 "$1" "SELECT name FROM sqlite_schema WHERE name LIKE 'qp\\_%' ESCAPE '\\' AND type='table'"); do
        [ "$table" = qp_head ] && continue
        diff <(sqlite3 "$1" "SELECT * FROM $table") <(sqlite3 "$2" "SELECT * FROM $table") || return 1
    done
    diff <(sqlite3 "$1" "SELECT pos,ord FROM qp_head") <(sqlite3 "$2" "SELECT pos,ord FROM qp_head")
}

test_a_file_moves_and_works_on() {
    expect 0 "^moved [0-9]+ rows, 1 jobs among them, to $PWD/b.db\$" \
        "$PWD/a.db is for reading only now; remove it when you like" migrate --from a.db --to b.db &&
        grep -Eq "copied: [0-9]* rows, ([0-9]+) of \1 tables, [0-9.]* MiB" "$TMPDIR/err" &&
        [ "$(sqlite3 b.db 'SELECT count(*) FROM qp_job')" = 1 ] &&
        expect 0 "" " 1 jobs, 0 errors" fsck b.db &&
        expect 0 "" " 1 jobs, 0 errors" fsck a.db &&
        "$build/examples/hello" b.db > /dev/null &&
        ! "$build/examples/hello" a.db > hello.out 2>&1 &&
        matches "was moved to $PWD/b.db; work there" hello.out
}

test_there_and_back() {
    expect 0 "^moved" "copied" migrate --from sqlite:a.db --to "sqlite:$PWD/b.db" &&
        expect 4 "" "the destination: is not empty" migrate --from b.db --to a.db &&
        rm a.db* && expect 0 "^moved" "copied" migrate --from b.db --to a.db &&
        same_rows "$start" a.db && expect 0 "" "0 errors" fsck a.db
}

test_the_source_can_be_kept() {
    expect 0 "^moved" "can still be used" migrate --from a.db --to b.db --keep-source &&
        same_rows a.db b.db &&
        "$build/examples/hello" a.db > /dev/null && "$build/examples/hello" b.db > /dev/null
}

test_json() {
    local want='^\{"from":".*/a.db","to":".*/b.db","source":"moved","checked":false,"rows":[0-9]+,"bytes":[0-9]+,"tables":\{"space":1,'
    expect 0 "$want" "copied" migrate --from a.db --to b.db -o json --no-check || return 1
    if command -v python3 > /dev/null; then
        python3 -m json.tool < "$TMPDIR/out" > /dev/null || return 1
    fi
}

test_usage() {
    expect 2 "" "name the source with --from" migrate --to b.db &&
        expect 2 "" "and the destination with --to" migrate --from a.db &&
        expect 2 "" "--from needs a value" migrate --to b.db --from &&
        expect 2 "" "unknown option '--force'" migrate --force &&
        expect 2 "" "--output must be text or json, got 'xml'" migrate --from a.db --to b.db -o xml &&
        expect 2 "" "a place is a file or a URL, and not empty" migrate --from a.db --to sqlite: &&
        expect 2 "" "a place is sqlite:FILE, FILE or postgres" migrate --from a.db --to mysql://x/y &&
        expect 0 "usage: quipu migrate .options. --from PLACE --to PLACE" "" help migrate &&
        [ ! -e b.db ]
}

test_same_place_twice() {
    ln -s a.db link.db
    expect 2 "" "source and destination are the same: $PWD/a.db" migrate --from a.db --to a.db &&
        expect 2 "" "are the same" migrate --from a.db --to "sqlite:./a.db" &&
        expect 2 "" "are the same" migrate --from link.db --to a.db &&
        expect 2 "" "are the same" migrate --from postgres://u:secret@h/d --to postgres://u:secret@h/d &&
        ! grep -q secret "$TMPDIR/err"
}

test_bad_sources() {
    head -c 8192 /dev/zero > zero.db
    cp a.db newer.db && sqlite3 newer.db "PRAGMA user_version=99"
    cp a.db broken.db && sqlite3 broken.db "UPDATE qp_job SET sem=5"
    cp a.db half.db && sqlite3 half.db "UPDATE qp_head SET clean=2"
    expect 3 "" "absent.db': is not there" migrate --from absent.db --to b.db &&
        expect 1 "" "is not a SQLite file" migrate --from zero.db --to b.db &&
        expect 4 "" "made by a newer quipu" migrate --from newer.db --to b.db &&
        expect 4 "" "the source: is half of a copy that was cut off" migrate --from half.db --to b.db &&
        [ ! -e b.db ] &&
        expect 13 "" "breaks rules of the protocol; quipu fsck says which" migrate --from broken.db --to b.db &&
        [ "$(sqlite3 broken.db 'SELECT clean FROM qp_head')" = 1 ] &&
        expect 0 "^moved" "copied" migrate --from broken.db --to b.db --no-check
}

test_bad_destinations() {
    head -c 8192 /dev/zero > zero.db
    cp a.db other.db
    cp a.db newer.db && sqlite3 newer.db "PRAGMA user_version=99"
    expect 1 "" "is not a SQLite file" migrate --from a.db --to zero.db &&
        expect 4 "" "the destination: is not empty \(job\); name a new one, or remove it first" migrate --from a.db --to other.db &&
        expect 4 "" "made by a newer quipu" migrate --from a.db --to newer.db &&
        expect 3 "" "its directory: No such file" migrate --from a.db --to nowhere/b.db &&
        expect 1 "" "is a directory" migrate --from a.db --to . &&
        same_rows "$start" a.db && expect 0 "^moved" "copied" migrate --from a.db --to b.db
}

# An engine has the file open: its lock says so.
test_source_in_use() {
    exec 9<> a.db-qplock
    flock -n 9 || return 1
    expect 4 "" "in use by process [0-9]+; stop it first" migrate --from a.db --to b.db || return 1
    exec 9>&-
    [ ! -e b.db ] && expect 0 "^moved" "copied" migrate --from a.db --to b.db
}

# What a kill leaves (test_copy_kill.c makes it for real): the destination is refused by all but the same command.
test_half_of_a_copy() {
    expect 0 "^moved" "copied" migrate --from a.db --to b.db &&
        sqlite3 b.db "UPDATE qp_head SET clean=2; DELETE FROM qp_act" &&
        expect 1 "" "is half of a copy that was cut off; run the same quipu migrate again, or remove it" fsck b.db &&
        ! "$build/examples/hello" b.db > hello.out 2>&1 &&
        matches "run the same quipu migrate again" hello.out &&
        expect 4 "" "the source: was moved to $PWD/b.db already" migrate --from a.db --to c.db &&
        expect 0 "^moved" "copied" migrate --from a.db --to b.db &&
        same_rows a.db b.db && "$build/examples/hello" b.db > /dev/null
}

"$build/examples/hello" "$start" > /dev/null || exit 1

before_each() {
    cp "$start" a.db && printf 'quipu 1\n' > a.db-qplock
}

run_tests
