#!/bin/bash
# test_whole.sh - a store that is not whole is refused, by a server that was killed and by every command, and what is lost can be accepted
. test/cli/lib.sh

db=data/quipu.db

# jobs N: starts so many jobs, all of them answered
jobs() {
    local n
    for n in $(seq "$1"); do
        "$quipu" start work --id "job-$n" --server "$url" --token-file data/admin.token 2> /dev/null || return 1
    done > started
    [ "$(wc -l < started)" -eq "$1" ]
}

# moved: an idle server moves its log into the file, and the lock file says so
moved() {
    until awk '{ exit $4 != $7 }' "$db-qplock"; do sleep 0.1; done
}

# crash: the server is killed in whatever it does
crash() {
    stop KILL
    [ $? -eq 137 ]
}

# refused SENTENCE: by the server and by commands that write or read; nothing is changed
refused() {
    find data -name "quipu.db*" ! -name "*-shm" ! -name "*-qplock" -size +0 -exec md5sum {} + > before
    expect 1 '' "$1" start work --db "$db" &&
        expect 1 '' "$1" ls --db "$db" &&
        expect 1 '' "$1" fsck "$db" &&
        expect 1 '' "$1" backup copy.db --db "$db" &&
        expect 1 '' "$1" run --db "$db" &&
        expect 1 '' "$1" migrate --from "$db" --to other.db &&
        expect 1 '' "$1" serve --data-dir data --listen 127.0.0.1:0 &&
        md5sum --quiet -c before
}

# count N [ARGUMENT..]: so many jobs are in the store
count() {
    expect 0 "^$1\$" '' ls --count --db "$db" "${@:2}"
}

test_log_is_gone() {
    serve && jobs 20 && sleep 0.1 && cp "$db" early.db && crash
    [ -s "$db-wal" ] && rm -f "$db-wal" "$db-shm" || return 1
    refused "answered changes are missing: .*--accept-loss" &&
        expect 0 . '' ls --db "$db" --accept-loss &&                # a look changes nothing
        refused "answered changes are missing: .*--accept-loss" &&
        expect 0 '' 'jobs, 0 errors' fsck "$db" --accept-loss &&
        serve --accept-loss && stop TERM && serve && stop TERM      # once is enough
}

test_log_is_older() {
    serve && jobs 5 && cp "$db-wal" old-wal && jobs 20 && crash && cp old-wal "$db-wal" && rm -f "$db-shm" &&
        refused "answered changes are missing: " && serve --accept-loss && stop TERM && count 5
}

# The last pages are of an input that nothing has written to since: the log does not have them.
test_file_is_truncated() {
    local large
    large=$(head -c 50000 /dev/zero | tr '\0' x)
    serve && "$quipu" start work "text=$large" --id large --server "$url" --token-file data/admin.token > /dev/null 2>&1 &&
        until [ "$(stat -c %s "$db")" -gt 300000 ]; do sleep 0.1; done && # as moved
        jobs 3 && crash && [ -s "$db-wal" ] &&
        truncate -s $(($(stat -c %s "$db") - 6 * 4096)) "$db" && refused "is truncated: it counts [0-9]+ pages" &&
        expect 1 '' 'is truncated' serve --data-dir data --listen 127.0.0.1:0 --accept-loss # this is no loss to accept
}

# Nothing happened to it but the kill: all that was answered is there.
test_kill_alone_is_no_loss() {
    serve && jobs 20 && crash && count 20 && serve && stop TERM && [ ! -e "$db-wal" ] && count 20
}

# The recipe of docs/operations.md.
test_restore() {
    serve && jobs 3 && expect 0 . '' backup early.db --server "$url" --token-file data/admin.token && jobs 9 && stop TERM &&
        mv data/backups/early.db "$db" && refused "a backup was restored" && serve --accept-loss && stop TERM && count 3
}

# The backup is in its place, but the log is of the file that was there when the server was killed.
test_restore_beside_a_log() {
    serve && jobs 3 && expect 0 . '' backup early.db --server "$url" --token-file data/admin.token && jobs 9 && moved &&
        jobs 10 && crash && cp data/backups/early.db "$db" && refused "log .* is of the file that was there before; .*remove the log" &&
        expect 1 '' "file that was there before" serve --data-dir data --accept-loss &&
        rm "$db-wal" "$db-shm" && serve --accept-loss && stop TERM && count 3
}

test_store_is_gone() {
    serve && jobs 3 && stop TERM && rm "$db" &&
        expect 1 '' 'changes of it were answered; put it back' start work --db "$db" &&
        expect 1 '' 'changes of it were answered; put it back' serve --data-dir data --listen 127.0.0.1:0 && [ ! -e "$db" ] &&
        serve --accept-loss && stop TERM && count 0
}

# ended_by SENTENCE: the server ends by itself, with an error, within a second (and a moment for a busy machine)
ended_by() {
    local from=${EPOCHREALTIME/./} took status
    while kill -0 "$server" 2> /dev/null && [ $((${EPOCHREALTIME/./} - from)) -lt 5000000 ]; do
        sleep 0.02
    done
    took=$((${EPOCHREALTIME/./} - from))
    kill -9 "$server" 2> /dev/null # it should be gone
    wait "$server" 2> /dev/null
    status=$?
    [ "$status" -eq 1 ] && grep -q "$1" serve.err && [ "$took" -lt 2000000 ] && return 0
    echo "exit $status after $took us"
    tail -5 serve.err
    return 1
}

test_removed_under_an_idle_server() {
    serve && jobs 2 && rm "$db" && ended_by "was removed or replaced while the store was in use" && [ -s "$db-wal" ]
}

test_replaced_under_an_idle_server() {
    serve && jobs 2 && expect 0 . '' backup early.db --server "$url" --token-file data/admin.token && jobs 3 && moved && jobs 4 &&
        mv data/backups/early.db "$db" && ended_by "was removed or replaced while the store was in use" &&
        refused "is of the file that was there before"
}

test_lock_is_removed_under_a_server() {
    serve && rm "$db-qplock" && ended_by "qplock.* was removed or replaced"
}

test_replaced_under_a_busy_server() {
    local busy
    serve && jobs 1 || return 1
    while kill -0 "$server" && "$quipu" start work --server "$url" --token-file data/admin.token; do :; done > /dev/null 2>&1 &
    busy=$!
    cp "$db" copy.db && mv copy.db "$db" && ended_by "was removed or replaced while the store was in use"
    local ended=$?
    wait "$busy"
    return "$ended"
}

# A clean stop leaves one file, also when the server was asked for something.
test_clean_stop_leaves_no_log() {
    serve && jobs 5 && expect 0 job-5 '' ls --server "$url" --token-file data/admin.token && stop TERM &&
        [ ! -e "$db-wal" ] && mkdir alone && cp "$db" alone/ &&
        expect 0 '^5$' '' ls --count --db alone/quipu.db
}

test_memory_is_no_file() {
    expect 2 '' "':memory:' is not a file: .*--store memory" start work --db :memory: &&
        expect 2 '' "':memory:' is not a file" serve --data-dir data --store :memory: --listen 127.0.0.1:0 && [ ! -e :memory: ]
}

run_tests
