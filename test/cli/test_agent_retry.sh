#!/bin/bash
# test_agent_retry.sh - instances whose works have failed get another attempt: one, one work of it, and all at once, which is done once
set -u
. test/cli/lib.sh

COUNT=1000

make() {
    mkdir -m 700 data && "$build/test/tools/instances" data/quipu.db "$1"
}

retry() {
    expect 0 "$1" - retry --where "$2" "${@:3}" --db data/quipu.db
}

# works JOB: state and attempt of each work
works() {
    "$quipu" show --decisions "$1" -o json --db data/quipu.db | jq -c '[.statuses[] | [.position, .status, .attempt]]'
}

# A thousand, counted first, then done; a second time there is nothing to do, also by a filter that they still fit.
test_all_at_once() {
    make $COUNT && retry "^$COUNT jobs fit: bulk-" 'status=parked' --dry-run &&
        [ "$(works bulk-1)" = '[["1p0","failed",1],["1p1","scheduled",1]]' ] &&
        retry "^retry: $COUNT done, 0 refused, batch " 'status=parked' --yes --rate 10000/s &&
        retry '^0 jobs fit$' 'status=parked' --dry-run &&
        retry '^retry: 0 done, 0 refused, batch ' 'status=parked' --yes &&
        retry "^retry: 0 done, $((COUNT + 1)) refused, batch " 'workflow=bulk' --yes --rate 10000/s &&
        [ "$(works bulk-$COUNT)" = '[["1p0","scheduled",2],["1p1","scheduled",1]]' ] &&
        [ "$(works well)" = '[["1p0","scheduled",1],["1p1","scheduled",1]]' ] &&
        expect 0 '' '1001 jobs, 0 errors, 0 warnings' fsck --db data/quipu.db
}

# One work by branch and position; the other has not failed, and there is no third.
test_one_work() {
    make 3 && expect 4 '' "nothing of the instance has failed" retry bulk-2 --work b0/1p1 --db data/quipu.db &&
        expect 3 '' "the instance has no work 'b0/1p2'" retry bulk-2 --work b0/1p2 --db data/quipu.db &&
        expect 0 '^bulk-2$' '' retry bulk-2 --work b0/1p0 --db data/quipu.db &&
        expect 4 '' "nothing of the instance has failed" retry bulk-2 --work b0/1p0 --db data/quipu.db &&
        [ "$(works bulk-2)" = '[["1p0","scheduled",2],["1p1","scheduled",1]]' ] &&
        [ "$(works bulk-3)" = '[["1p0","failed",1],["1p1","scheduled",1]]' ] &&
        expect 2 '' "and --work are for one job" retry --where 'status=parked' --work b0/1p0 --yes --db data/quipu.db
}

run_tests
