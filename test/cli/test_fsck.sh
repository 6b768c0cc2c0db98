#!/bin/bash
# test_fsck.sh - quipu fsck as a shell sees it: healthy, foreign and damaged files, output and exit codes
#
# The healthy file is made by the example hello, which runs one job.
set -u
. test/cli/lib.sh
healthy=$TMPDIR/healthy.db

# damage NAME SQL: a copy of the healthy file, changed behind the program's back
damage() {
    cp "$healthy" "$TMPDIR/$1.db" && sqlite3 "$TMPDIR/$1.db" "$2"
}

test_healthy() {
    expect 0 "" "[1-9][0-9]* jobs, 0 errors, 0 warnings" fsck "$healthy" &&
        expect 0 "" "jobs, 0 errors" fsck --db "$healthy" --ns default --rule A,S1 --limit 5
}

test_selftest() {
    expect 0 "selftest: every rule finds its seeds" "" fsck --selftest &&
        expect 0 '^\{"ok":true\}$' "" fsck --selftest -o json
}

test_foreign() {
    head -c 8192 /dev/zero > "$TMPDIR/foreign.db"
    expect 1 "" "quipu: fsck: .*; see quipu help fsck" fsck "$TMPDIR/foreign.db" &&
        expect 3 "" "quipu: fsck: .*is not there" fsck "$TMPDIR/absent.db" &&
        expect 1 "" "quipu: fsck: .*" fsck "$TMPDIR" &&
        expect 3 "" "there is no job 'x'" fsck "$healthy" --job x &&
        expect 3 "" "there is no namespace 'x'" fsck "$healthy" --ns x
}

test_damaged() {
    damage sem "UPDATE qp_job SET sem=5" &&
        expect 13 "^S1 error namespace default job .*semaphore 5, deltas 0.*; next: " "[1-9] errors" fsck "$TMPDIR/sem.db" &&
        expect 0 "" " 0 errors" fsck "$TMPDIR/sem.db" --rule A &&
        expect 13 "^S1 " "run it again with a higher --limit" fsck "$TMPDIR/sem.db" --limit 1 &&
        damage ledger "UPDATE qp_act SET ledger=201100100000001 WHERE addr='run,0,0'" &&
        expect 13 "^A1 error .*ledger 201100100000001" "errors" fsck "$TMPDIR/ledger.db" &&
        damage orphan "DELETE FROM qp_job_name" &&
        expect 13 "^O4 error" "errors" fsck "$TMPDIR/orphan.db"
}

test_impossible_row_cannot_be_checked() {
    damage row "UPDATE qp_job SET state=77" && expect 1 "" "the file is damaged" fsck "$TMPDIR/row.db"
}

# A job of 300,000 activities, like its one activity but for address, GUID and place in the journal: fsck and show take
# at most 256 MiB of addresses for it, and show prints all of them. The short lane has a fifth of it.
test_large_job() {
    local most=60000 memory_kib=90000 columns
    [ "${QP_LANE:-check}" != torture ] || most=300000 memory_kib=262144
    damage large "UPDATE qp_act SET n=$most, delta=$most WHERE addr='trigger,0'; UPDATE qp_job SET seq=2+2*$most;" || return 1
    columns=$(sqlite3 "$TMPDIR/large.db" "SELECT group_concat(CASE name
        WHEN 'addr' THEN '''item,0,''||k' WHEN 'guid' THEN 'CAST(printf(''%016d'',k) AS BLOB)' WHEN 'guid_ledger' THEN '11000000001'
        WHEN 'seq' THEN '3+2*k' WHEN 'pos' THEN '3+2*k' WHEN 'guid_seq' THEN '4+2*k' WHEN 'guid_pos' THEN '4+2*k'
        ELSE '\"'||name||'\"' END) FROM pragma_table_info('qp_act')")
    sqlite3 "$TMPDIR/large.db" "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k+1 FROM n WHERE k<$most-1)
        INSERT INTO qp_act SELECT $columns FROM n, qp_act WHERE addr='run,0,0'" || return 1
    (
        quipu=$build/quipu # a sanitizer needs more addresses than the limit allows
        ulimit -v $memory_kib
        expect 0 "" " 0 errors, 0 warnings" fsck "$TMPDIR/large.db" &&
            expect 0 "^greet\\[$((most - 1))\\] " "" show greet-ada --db "$TMPDIR/large.db"
    ) && [ "$(grep -c '^greet\[' "$TMPDIR/out")" -eq $((most - 1)) ]
}

test_json() {
    local head='^\{"findings":\[\{"rule":"S1","severity":"error","namespace":"default","job":"greet-ada",'
    damage json "UPDATE qp_job SET sem=5"
    expect 13 "$head.*\"ok\":false," "errors" fsck "$TMPDIR/json.db" -o json || return 1
    if command -v python3 > /dev/null; then
        python3 -m json.tool < "$TMPDIR/out" > /dev/null || return 1
    fi
    expect 0 '^\{"findings":\[\],"ok":true,"jobs":[0-9]+,"errors":0,' "jobs" fsck "$healthy" -o json
}

test_usage() {
    expect 2 "" "quipu: fsck: --limit must be at least 1" fsck "$healthy" --limit 0 &&
        expect 2 "" "quipu: fsck: --limit must be at least 1" fsck "$healthy" --limit 1x &&
        expect 2 "" "quipu: fsck: --max-tries must be at least 1" fsck "$healthy" --max-tries no &&
        expect 2 "" "quipu: fsck: --db needs a value" fsck --db &&
        expect 2 "" "quipu: fsck: --output must be text or json, got 'xml'" fsck -o xml &&
        expect 2 "" "quipu: fsck: unknown option '--fix'" fsck --fix &&
        expect 2 "" "quipu: fsck: unexpected argument 'second'" fsck first second &&
        expect 2 "" "there is no rule 'Q7'" fsck "$healthy" --rule Q7
}

test_file_is_not_changed() {
    local before
    before=$(cksum < "$healthy")
    "$quipu" fsck "$healthy" 2> /dev/null && [ "$before" = "$(cksum < "$healthy")" ]
}

# The rules of the source and those of the manual are the same, with the same severity and words.
test_manual_lists_every_rule() {
    local source manual kinds
    source=$(tr '\n' ' ' < "$root/src/kernel/check_rules.def" |
        grep -Eo 'RULE\([A-Z][0-9], (ERROR|WARNING), (JOB|STORE), +"[^"]*"' |
        sed -E 's/RULE\(([A-Z][0-9]), (ERROR|WARNING), [A-Z]+, +"([^"]*)"/\1 \L\2\E \3/' | sort)
    manual=$(sed -nE 's/^\| ([A-Z][0-9]) \| (error|warning) \| (.*) \|$/\1 \2 \3/p' "$root/docs/fsck.md" | sort)
    kinds=$(sed -nE 's/^ +\{"([A-Z][0-9])", QP_SEVERITY_(ERROR|WARNING),.*/\1 \L\2/p' "$root"/src/{flow,carto,agent}/rules.c | sort)
    [ -n "$source" ] && [ -n "$kinds" ] &&
        diff <(echo "$source") <(echo "$manual" | grep -vE "^($(cut -d' ' -f1 <<< "$kinds" | paste -sd'|')) ") &&
        diff <(echo "$kinds") <(comm -13 <(echo "$source") <(echo "$manual") | cut -d' ' -f1,2)
}

"$build/examples/hello" "$healthy" > /dev/null || exit 1

run_tests
