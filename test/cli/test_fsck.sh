#!/bin/bash
# test_fsck.sh - quipu fsck as a shell sees it: healthy, foreign and damaged files, output and exit codes
#
# A test is a function test_*; it fails by returning non-zero. The last line counts them. The healthy file is made by the
# example hello, which runs one job.
set -u
build=${QP_BUILD:-build}
quipu=$build/quipu
healthy=$TMPDIR/healthy.db

# expect EXIT STDOUT-PATTERN STDERR-PATTERN ARGUMENT... : the patterns are extended regular expressions that a line of
# the stream must match; an empty one means that the stream is empty.
expect() {
    local want_status=$1 want_out=$2 want_err=$3 status
    shift 3
    "$quipu" fsck "$@" > "$TMPDIR/out" 2> "$TMPDIR/err"
    status=$?
    if [ "$status" -ne "$want_status" ]; then
        echo "quipu fsck $*: exit $status instead of $want_status"
        cat "$TMPDIR/out" "$TMPDIR/err"
        return 1
    fi
    matches "$want_out" "$TMPDIR/out" && matches "$want_err" "$TMPDIR/err"
}

matches() {
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

# damage NAME SQL: a copy of the healthy file, changed behind the program's back
damage() {
    cp "$healthy" "$TMPDIR/$1.db" && sqlite3 "$TMPDIR/$1.db" "$2"
}

test_healthy() {
    expect 0 "" "[1-9][0-9]* jobs, 0 errors, 0 warnings" "$healthy" &&
        expect 0 "" "jobs, 0 errors" --db "$healthy" --ns default --rule A,S1 --limit 5
}

test_selftest() {
    expect 0 "selftest: every rule finds its seeds" "" --selftest &&
        expect 0 '^\{"ok":true\}$' "" --selftest -o json
}

test_foreign() {
    head -c 8192 /dev/zero > "$TMPDIR/foreign.db"
    expect 1 "" "quipu: fsck: .*; see quipu help fsck" "$TMPDIR/foreign.db" &&
        expect 1 "" "quipu: fsck: .*is not there" "$TMPDIR/absent.db" &&
        expect 1 "" "quipu: fsck: .*" "$TMPDIR" &&
        expect 1 "" "there is no job 'x'" "$healthy" --job x &&
        expect 1 "" "there is no namespace 'x'" "$healthy" --ns x
}

test_damaged() {
    damage sem "UPDATE qp_job SET sem=5" &&
        expect 13 "^S1 error namespace default job .*semaphore 5, deltas 0.*; next: " "[1-9] errors" "$TMPDIR/sem.db" &&
        expect 0 "" " 0 errors" "$TMPDIR/sem.db" --rule A &&
        expect 13 "^S1 " "run it again with a higher --limit" "$TMPDIR/sem.db" --limit 1 &&
        damage ledger "UPDATE qp_act SET ledger=201100100000001 WHERE addr='run,0,0'" &&
        expect 13 "^A1 error .*ledger 201100100000001" "errors" "$TMPDIR/ledger.db" &&
        damage orphan "DELETE FROM qp_job_name" &&
        expect 13 "^O4 error" "errors" "$TMPDIR/orphan.db"
}

test_impossible_row_cannot_be_checked() {
    damage row "UPDATE qp_job SET state=77" && expect 1 "" "the file is damaged" "$TMPDIR/row.db"
}

test_json() {
    local head='^\{"findings":\[\{"rule":"S1","severity":"error","namespace":"default","job":"greet-ada",'
    damage json "UPDATE qp_job SET sem=5"
    expect 13 "$head.*\"ok\":false," "errors" "$TMPDIR/json.db" -o json || return 1
    if command -v python3 > /dev/null; then
        python3 -m json.tool < "$TMPDIR/out" > /dev/null || return 1
    fi
    expect 0 '^\{"findings":\[\],"ok":true,"jobs":[0-9]+,"errors":0,' "jobs" "$healthy" -o json
}

test_usage() {
    expect 2 "" "quipu: fsck: --limit is a positive number" "$healthy" --limit 0 &&
        expect 2 "" "quipu: fsck: --limit is a positive number" "$healthy" --limit 1x &&
        expect 2 "" "quipu: fsck: --max-tries is a positive number" "$healthy" --max-tries no &&
        expect 2 "" "quipu: fsck: --db needs a value" --db &&
        expect 2 "" "quipu: fsck: output is text or json, not 'xml'" -o xml &&
        expect 2 "" "quipu: fsck: what is '--fix'" --fix &&
        expect 2 "" "quipu: fsck: what is 'second'" first second &&
        expect 2 "" "there is no rule 'Q7'" "$healthy" --rule Q7
}

test_file_is_not_changed() {
    local before
    before=$(cksum < "$healthy")
    "$quipu" fsck "$healthy" 2> /dev/null && [ "$before" = "$(cksum < "$healthy")" ]
}

# The rules of the source and those of the manual are the same, with the same severity and words.
test_manual_lists_every_rule() {
    local source manual
    source=$(tr '\n' ' ' < src/kernel/check_rules.def |
        grep -Eo 'RULE\([A-Z][0-9], (ERROR|WARNING), (JOB|STORE), +"[^"]*"' |
        sed -E 's/RULE\(([A-Z][0-9]), (ERROR|WARNING), [A-Z]+, +"([^"]*)"/\1 \L\2\E \3/' | sort)
    manual=$(sed -nE 's/^\| ([A-Z][0-9]) \| (error|warning) \| (.*) \|$/\1 \2 \3/p' docs/fsck.md | sort)
    [ -n "$source" ] && diff <(echo "$source") <(echo "$manual")
}

"$build/examples/hello" "$healthy" > /dev/null || exit 1

passed=0
failed=0
for name in $(declare -F | awk '$3 ~ /^test_/ { print $3 }'); do
    if "$name"; then
        passed=$((passed + 1))
    else
        echo "FAILED $name"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
