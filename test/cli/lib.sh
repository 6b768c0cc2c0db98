#!/bin/bash
# lib.sh - what the tests of the command line share; each test_*.sh reads it at its top
#
# A test is a function test_*; it fails by returning non-zero. `run_tests` at the end of a script runs them all, each in a directory of its
# own, and the last line counts them. A function before_each, if there is one, runs in that directory first. Servers that a test has
# started are ended with it.
build=$(realpath "${QP_BUILD:-build}")
quipu=$build/quipu
[ "${QP_LANE:-check}" != torture ] || quipu=$build/asan/quipu # what is slower finds more
root=$PWD
export XDG_CONFIG_HOME=$TMPDIR/config
unset QUIPU_SERVER QUIPU_DB QUIPU_TOKEN QUIPU_TOKEN_FILE QUIPU_PROFILE QUIPU_NAMESPACE
servers=()

# matches PATTERN FILE: a line of the file matches the extended regular expression; an empty one means that the file is empty,
# and - that it may be as it likes
matches() {
    if [ "$1" = - ]; then
        return 0
    fi
    if [ -z "$1" ] && [ ! -s "$2" ]; then
        return 0
    fi
    if [ -n "$1" ] && grep -Eq -- "$1" "$2"; then
        return 0
    fi
    echo "$(basename "$2") does not match '$1':"
    cat "$2"
    return 1
}

# expect EXIT STDOUT-PATTERN STDERR-PATTERN ARGUMENT... : runs the program; what it printed stays in $TMPDIR/out and $TMPDIR/err
expect() {
    local want_status=$1 want_out=$2 want_err=$3 status
    shift 3
    "$quipu" "$@" > "$TMPDIR/out" 2> "$TMPDIR/err" < "${stdin:-/dev/null}"
    status=$?
    if [ "$status" -ne "$want_status" ]; then
        echo "quipu $*: exit $status instead of $want_status"
        cat "$TMPDIR/out" "$TMPDIR/err"
        return 1
    fi
    matches "$want_out" "$TMPDIR/out" && matches "$want_err" "$TMPDIR/err"
}

# eventually COMMAND...: waits until it succeeds, 20 s at most
eventually() {
    for _ in $(seq 1000); do
        "$@" > /dev/null 2>&1 && return 0
        sleep 0.02
    done
    echo "never: $*"
    return 1
}

# serve [ARGUMENT...]: a server in ./data, on a port that the system chooses; $url and $server (its process) say where
serve() {
    : > serve.out
    "$quipu" serve --data-dir data --listen "${address:-127.0.0.1:0}" "$@" > serve.out 2>> serve.err &
    server=$!
    servers+=("$server")
    url=
    for _ in $(seq 200); do
        url=$(sed -n 's/^listening on \(http.*\)$/\1/p' serve.out)
        [ -z "$url" ] || break
        sleep 0.05
    done
    [ -n "$url" ] || { cat serve.err; return 1; }
}

# stop SIGNAL: ends the server of this test; with its exit code
stop() {
    kill "-$1" "$server" && wait "$server" 2> /dev/null
}

end_servers() {
    local pid
    for pid in "${servers[@]}"; do
        kill -9 "$pid" 2> /dev/null && wait "$pid" 2> /dev/null
    done
    servers=()
}
trap end_servers EXIT

run_tests() {
    local name passed=0 failed=0
    for name in $(declare -F | awk '$3 ~ /^test_/ { print $3 }'); do
        mkdir "$TMPDIR/$name" && cd "$TMPDIR/$name" || exit 1
        if { ! declare -F before_each > /dev/null || before_each "$name"; } && "$name"; then
            passed=$((passed + 1))
        else
            echo "FAILED $name"
            failed=$((failed + 1))
        fi
        end_servers
        cd "$root" || exit 1
    done
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
