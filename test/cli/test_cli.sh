#!/bin/bash
# test_cli.sh - the program's commands as a shell sees them: output, streams and exit codes
#
# A test is a function test_*; it fails by returning non-zero. The last line counts them.
set -u
. test/cli/lib.sh

# whole EXIT STDOUT-PATTERN STDERR-PATTERN ARGUMENT... : the patterns are anchored extended regular expressions that
# the whole stream, taken as one line, must match.
whole() {
    local want_status=$1 want_out=$2 want_err=$3 status out err
    shift 3
    out=$("$quipu" "$@" 2> "$TMPDIR/err")
    status=$?
    err=$(tr '\n' ' ' < "$TMPDIR/err" | sed 's/ $//')
    out=$(tr '\n' ' ' <<< "$out" | sed 's/ $//')
    if [ "$status" -ne "$want_status" ]; then
        echo "quipu $*: exit $status instead of $want_status"
        return 1
    fi
    if ! grep -Eqx -- "$want_out" <<< "$out"; then
        echo "quipu $*: stdout is: $out"
        return 1
    fi
    if ! grep -Eqx -- "$want_err" <<< "$err"; then
        echo "quipu $*: stderr is: $err"
        return 1
    fi
}

test_version() {
    local version
    version=$(sed -n 's/^.define QP_VERSION "\(.*\)"$/\1/p' "$root/include/quipu.h")
    whole 0 "quipu ${version//./\\.}" "" version &&
        whole 0 "quipu ${version//./\\.}" "" version -o text &&
        whole 0 "\\{\"version\":\"${version//./\\.}\"\\}" "" version -o json &&
        whole 0 "quipu .*" "" --version
}

test_version_usage() {
    whole 2 "" "quipu: version: --output must be text or json, got 'xml'; see quipu help version" version -o xml &&
        whole 2 "" "quipu: version: -o needs a value; see quipu help version" version -o &&
        whole 2 "" "quipu: version: unexpected argument 'extra'; see quipu help version" version extra
}

test_help_lists_every_command() {
    whole 0 "usage: .* version .* help .*" "" help &&
        whole 0 "usage: .* version .* help .*" "" --help &&
        whole 0 "usage: .* version .* help .*" "" -h &&
        whole 0 "usage: quipu version .*" "" help version
}

test_no_command_is_a_usage_error() {
    whole 2 "" "usage: quipu .*"
}

test_unknown_command_names_the_nearest() {
    whole 2 "" "quipu: unknown command 'versoin' \\(nearest: version\\); see quipu help" versoin &&
        whole 2 "" "quipu: unknown command 'hlep' \\(nearest: help\\); see quipu help" hlep &&
        whole 2 "" "quipu: unknown command '' \\(nearest: [a-z ]+\\); see quipu help" "" &&
        whole 2 "" "quipu: unknown command 'nope' .*" help nope
}

test_terminal_is_safe_from_input() {
    whole 2 "" "quipu: unknown command 'a\\\\x1b\\[31m\\\\xc3' .*" $'a\x1b[31m\xc3'
}

test_long_input_is_cut() {
    whole 2 "" "quipu: unknown command 'x{170,190}" "$(printf 'x%.0s' $(seq 5000))"
}

test_full_disk_is_an_error() {
    "$quipu" version > /dev/full 2> "$TMPDIR/err"
    [ $? -eq 1 ] && grep -qx "quipu: cannot write the output; next: df -h" "$TMPDIR/err"
}

test_options_before_the_command() {
    expect 2 '' "a server is http.*not 'x'|a server is http" --server x ls
}

run_tests
