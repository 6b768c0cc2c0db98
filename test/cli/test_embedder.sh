#!/bin/bash
# test_embedder.sh - a service with the engine inside is killed again and again; its own tables and the jobs agree
#
# test/tools/embedder.c is built against the installed library, as its users do. It lives twice: with threads, and with a
# poll(2) loop; each is killed with SIGKILL at random moments and started again. In the end no job is open, every order has
# one charge, and the file obeys the rules of the protocol. Then the same, briefly, with sanitizers; in the long lane with
# valgrind, too.
set -eu
build=${QP_BUILD:-build}
root=$TMPDIR/root
kills=8 passed=0 failed=0
[ "${QP_LANE:-check}" = torture ] && kills=100
RANDOM=${QP_SEED:-$$}
echo "QP_SEED=${QP_SEED:-$$}"

make -s install B="$build" DESTDIR="$root" PREFIX=/usr > /dev/null
export PKG_CONFIG_PATH=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root LD_LIBRARY_PATH=$root/usr/lib
gcc -O1 -g -o "$TMPDIR/embedder" test/tools/embedder.c $(pkg-config --cflags --libs quipu) -lsqlite3

# check NAME COMMAND...: one test
check() {
    local name=$1
    shift
    if "$@" > "$TMPDIR/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name failed:"
        tail -n 20 "$TMPDIR/out"
    fi
}

# one_life PROGRAM FILE WAY NAME: runs until it is killed, the first one not before it has taken an order. Fails when it
# ended by itself.
one_life() {
    local pid status=0
    : > "$TMPDIR/orders"
    "$1" "$2" "$3" run "$4" > "$TMPDIR/orders" &
    pid=$!
    if [ "$4" = 1 ]; then
        until [ -s "$TMPDIR/orders" ]; do
            kill -0 "$pid" || return 1
            sleep 0.02
        done
    fi
    sleep "0.$((RANDOM % 30 + 10))"
    kill -KILL "$pid" 2> /dev/null || true
    wait "$pid" 2> /dev/null || status=$?
    [ "$status" = 137 ]
}

# lives PROGRAM WAY COUNT: as many lives, a last one that ends well, and the verdict
lives() {
    local file=$TMPDIR/$2-$3.db
    for ((life = 1; life <= $3; life++)); do
        one_life "$1" "$file" "$2" "$life" || return 1
    done
    timeout 120 "$1" "$file" "$2" drain && "$1" "$file" check && "$build/quipu" fsck "$file"
}

# sanitized VARIANT FLAGS WAY...: the service and the library with a sanitizer
sanitized() {
    gcc -O1 -g $2 -Iinclude -o "$TMPDIR/embedder-$1" test/tools/embedder.c "$build/$1/library.a" \
        -lmicrohttpd -lsqlite3 -lpq -ljansson -lyaml -lcrypto -lpthread -lm
    for way in "${@:3}"; do
        lives "$TMPDIR/embedder-$1" "$way" 2 || return 1
        rm -f "$TMPDIR/$way-2.db"*
    done
}

# A last life is worked off below valgrind: no error, and nothing is lost.
below_valgrind() {
    local file=$TMPDIR/$1-valgrind.db
    one_life "$TMPDIR/embedder" "$file" "$1" v || return 1
    valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$TMPDIR/embedder" "$file" "$1" drain &&
        "$TMPDIR/embedder" "$file" check
}

for way in threads poll; do
    check "$kills kills, $way" lives "$TMPDIR/embedder" "$way" "$kills"
done
# A poll loop is one thread: in the short lane each sanitizer gets the way that it has more to find in.
ways=("threads poll" "threads poll")
[ "${QP_LANE:-check}" = torture ] || ways=(poll threads)
check "with the address sanitizer" sanitized asan -fsanitize=address,undefined ${ways[0]}
check "with the thread sanitizer" sanitized tsan -fsanitize=thread ${ways[1]}
if [ "${QP_LANE:-check}" = torture ]; then
    for way in threads poll; do
        check "below valgrind, $way" below_valgrind "$way"
    done
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
