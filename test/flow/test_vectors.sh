#!/bin/bash
# test_vectors.sh - the cursor gives for every case of test/flow/vectors what stands there
#
# The cases go through build/test/tools/cursor. A file has a comment on top, then three lines per case with an empty line before
# each: name, case, "= " and the words. Of a wrong case only the beginning of the answer is compared: the rest is a sentence.
set -u
cd "$(dirname "$0")/../.."
tool=${QP_BUILD:-build}/test/tools/cursor
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0
failed=0

# column N FILE: line N of every case; the first empty line ends the comment
column() {
    awk -v line="$1" '!start && /^$/ { start = NR } start && (NR - start) % 4 == line { print }' "$2"
}

# check FILE EXIT-CODE whole|beginning
check() {
    local status name want got i=0
    column 1 "$1" > "$dir/names"
    column 2 "$1" > "$dir/cases"
    column 3 "$1" | sed 's/^= \{0,1\}//' > "$dir/want"
    "$tool" < "$dir/cases" > "$dir/got"
    status=$?
    if [ "$status" -ne "$2" ]; then
        echo "$1: exit code $status, expected $2"
        failed=$((failed + 1))
    fi
    while IFS= read -r name <&3 && IFS= read -r want <&4; do
        i=$((i + 1))
        got=$(sed -n "${i}p" "$dir/got")
        if [ "$got" = "$want" ] || { [ "$3" = beginning ] && [[ $got == "$want"* ]]; }; then
            passed=$((passed + 1))
        else
            printf '%s: %s:\n  expected %s\n  got      %s\n' "$1" "$name" "$want" "$got"
            failed=$((failed + 1))
        fi
    done 3< "$dir/names" 4< "$dir/want"
    if [ "$(wc -l < "$dir/got")" -ne "$i" ] || [ "$i" -eq 0 ]; then
        echo "$1: $i cases, $(wc -l < "$dir/got") answers"
        failed=$((failed + 1))
    fi
}

check test/flow/vectors/document.txt 0 whole
check test/flow/vectors/more.txt 0 whole
check test/flow/vectors/wrong.txt 1 beginning
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
