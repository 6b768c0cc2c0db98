#!/bin/bash
# test_readme.sh - the C example of the README compiles, runs, runs again, and survives kill -9
set -eu
build=${QP_BUILD:-build}

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md > "$TMPDIR/hello.c"
[ -s "$TMPDIR/hello.c" ]
gcc -Wall -Wextra -Werror -Iinclude -o "$TMPDIR/hello" "$TMPDIR/hello.c" "$build/libquipu.a" \
    -lsqlite3 -lpq -ljansson -lyaml -lcrypto -lpthread -lm

cd "$TMPDIR"
for round in 1 2 3 4 5 6 7 8 9 10; do
    ./hello &
    pid=$!
    sleep "0.00$round"
    kill -9 "$pid" 2> /dev/null || true
    wait "$pid" 2> /dev/null || true
done
./hello
./hello
[ "$(sqlite3 hello.db 'SELECT count(*), sum(completions), sum(sem) FROM qp_job')" = "1|1|0" ]
[ "$(sqlite3 hello.db 'PRAGMA integrity_check')" = ok ]
