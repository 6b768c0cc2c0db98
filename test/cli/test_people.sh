#!/bin/bash
# test_people.sh - what people see first is the work: show, ls, watch and history name activities as their author did, say how each
# stands, what it waits for and how long, and leave ledgers to -o wide
set -u
. test/cli/lib.sh

write_graph() {
    cat > drill.yaml << 'EOF'
app:
  id: drill
  version: '1'
  graphs:
    - subscribes: drill
      activities:
        want: { type: trigger }
        pay: { type: worker, topic: quipu.fail, input: { maps: { code: 503, message: closed } }, retry: { maximumAttempts: 9, initialInterval: 60 } }
        ship: { type: worker, topic: nobody }
        ask: { type: hook, sleep: 3600 }
        rest: { type: hook, sleep: 7200 }
        sub: { type: await, topic: drill.sub }
        good: { type: worker, topic: quipu.echo, input: { maps: { a: 1 } } }
        never: { type: worker, topic: quipu.echo }
      transitions:
        want: [{ to: pay }, { to: ship }, { to: ask }, { to: rest }, { to: sub }, { to: good }]
        good: [{ to: never, conditions: { code: 500 } }]
      hooks:
        drill.ok:
          - to: ask
            conditions:
              match:
                - { expected: '{$job.metadata.jid}', actual: '{$self.hook.data.id}' }
    - subscribes: drill.sub
      activities:
        begin: { type: trigger }
        wait: { type: hook, sleep: 3600 }
      transitions:
        begin: [{ to: wait }]
    - subscribes: bad
      activities:
        enter: { type: trigger }
        break: { type: worker, topic: quipu.fail, input: { maps: { code: 422, message: refused } } }
      transitions:
        enter: [{ to: break }]
EOF
}

# Each mark, with what belongs to it: on a file and of a server alike.
test_marks() {
    write_graph
    serve && at=(-s unix:data/quipu.sock) && expect 0 - '' deploy drill.yaml --activate "${at[@]}" &&
        expect 0 '^j$' - start drill a=1 --id j "${at[@]}" || return 1
    eventually sh -c "'$quipu' show j -s unix:data/quipu.sock | grep -q '^good .*done'" || return 1
    expect 0 '^ACTIVITY +STATUS +TIME +DETAIL$' - show j "${at[@]}" && cp "$TMPDIR/out" shown &&
        matches '^want +done' shown &&
        matches '^pay +retrying +[0-9]+m?s +attempt 2 in (59s|1m): closed \(503\)$' shown &&
        matches '^ship +waiting +.*for a worker of nobody; none serves it$' shown &&
        matches '^ask +waiting +.*for the signal drill.ok, key j, 59m left$' shown &&
        matches '^rest +waiting +[0-9]+m?s +(1h|119m) left$' shown &&
        matches '^sub +waiting +.*for the job [0-9a-f-]{36}$' shown &&
        matches '^good +done +.*\{"a":1\}$' shown && matches '^never +skipped$' shown &&
        ! grep -Eq '[0-9]{15}|,0,0' shown || { cat shown; return 1; }
    "$quipu" show j -o json "${at[@]}" | jq -e '[.activities[] | {(.name): .mark}] | add ==
        {want: "done", pay: "retrying", ship: "waiting", ask: "waiting", rest: "waiting", sub: "waiting", good: "done"}' > /dev/null &&
        "$quipu" show j -o json "${at[@]}" | jq -e '.skipped == ["never"] and ([.activities[] | select(.name == "ask")][0] |
            .signal == "drill.ok" and .key == "j" and (.until | startswith("20"))) and
            ([.activities[] | select(.name == "sub")][0].child | length == 36)' > /dev/null &&
        "$quipu" show j -o yaml "${at[@]}" | grep -q '^activities:$' &&
        expect 0 '^ask,0,0 +0011000' - show j -o wide "${at[@]}" && matches '^state +[0-9]{15}$' "$TMPDIR/out" || return 1
    expect 10 '' "'b' is failed: refused; next: quipu show b" start bad --id b --wait --timeout 20s "${at[@]}" &&
        expect 0 '^error +refused \(422\), in break$' '' show b "${at[@]}" && matches '^break +failed .*refused \(422\)$' "$TMPDIR/out" &&
        matches '^started +(now|[0-9]+s ago), took [0-9]+m?s$' "$TMPDIR/out" &&
        expect 0 '^ID +WORKFLOW +STATUS +STARTED +TIME$' '' ls "${at[@]}" && matches '^b +bad +failed +(now|[0-9]+s ago) +[0-9]+m?s$' "$TMPDIR/out" &&
        expect 0 '^b .* failed +20.*Z +20.*Z +20.*Z ' '' ls -o wide "${at[@]}" &&
        expect 0 '^ +[0-9]+  [0-9]+m?s +break +attempt 1 failed: refused \(422\); it was the last one$' '' history b "${at[@]}"
}

# Twelve rounds: the third is before the eleventh, and a line names the round.
test_numbers_sort_as_numbers() {
    expect 0 - '' deploy "$root/examples/graphs/polling.yaml" --activate --db f.db &&
        sed 's/sleep: 0.2/sleep: 0.01/; s/version: .1./version: "2"/' "$root/examples/graphs/polling.yaml" > fast.yaml &&
        expect 0 - '' deploy fast.yaml --activate --db f.db &&
        expect 0 - '' start poll.begin wanted:=12 --id p --db f.db && expect 0 '' '' run --db f.db &&
        expect 0 - '' show p --db f.db || return 1
    [ "$(grep -oE '^look[^ ]*' "$TMPDIR/out" | tr '\n' ' ')" = \
        "look look[1] look[2] look[3] look[4] look[5] look[6] look[7] look[8] look[9] look[10] look[11] " ] || { cat "$TMPDIR/out"; return 1; }
    expect 0 - '' show p -o wide --db f.db || return 1
    grep -oE '^look,0,[0-9]+' "$TMPDIR/out" | sort -c -t, -k3n
}

# watch JOB ROWS COLUMNS: what is on a terminal of this size at the end
screen() {
    script -qec "stty rows $2 cols $3; exec $quipu watch $1 ${at[*]} --timeout 1s" /dev/null < /dev/null > raw
    tr -d '\r' < raw | sed -E 's/\x1b\[[0-9]+A/@@\n/g; s/\x1b\[[0-9;]*[mJ]//g; /^quipu: /d' | awk '/@@$/ { text = ""; next } { text = text $0 "\n" } END { printf "%s", text }' > screen
}

# Of forty activities those that are at work stay in sight, and no line is longer than the terminal.
test_watch_keeps_the_work_in_sight() {
    { echo "app:"; echo "  id: many"; echo "  version: '1'"; echo "  graphs:"; echo "    - subscribes: many"; echo "      activities:"
      echo "        t: { type: trigger }"; echo "        open: { type: worker, topic: nobody-who-serves-a-topic-with-a-name-that-is-much-longer-than-a-line }"
      for i in $(seq 40); do echo "        a$i: { type: worker, topic: quipu.echo }"; done
      echo "      transitions:"; echo "        t:"; echo "          - to: open"
      for i in $(seq 40); do echo "          - to: a$i"; done; } > many.yaml
    serve && at=(-s unix:data/quipu.sock) && expect 0 - '' deploy many.yaml --activate "${at[@]}" && expect 0 - - start many --id m "${at[@]}" || return 1
    eventually sh -c "[ \$('$quipu' show m -s unix:data/quipu.sock | grep -c done) = 41 ]" || return 1
    screen m 24 80
    matches '^open +waiting ' screen && matches '^m +many +running +started ' screen && matches '^and [0-9]+ more: quipu show$' screen &&
        [ "$(wc -L < screen)" -le 80 ] && [ "$(wc -l < screen)" -le 24 ] || { cat screen; return 1; }
    screen m 50 160
    matches '^a1 +done' screen && matches '^open +waiting ' screen && ! grep -q ' more: quipu show' screen
}

# The works of an instance of an agent workflow go by their names.
test_decisions() {
    mkdir -m 700 data && "$build/test/tools/instances" data/quipu.db 3 > /dev/null && expect 0 '^decisions +waiting' '' show bulk-1 --db data/quipu.db &&
        matches '^fails +failed .*Oops$' "$TMPDIR/out" && matches '^goes on +waiting .*for a worker of ' "$TMPDIR/out" &&
        matches '^parked +work_failed fails$' "$TMPDIR/out" && expect 0 ' fails +started' '' history bulk-1 --db data/quipu.db &&
        expect 0 '^bulk-1 +bulk +parked +[0-9]+d ago$' '' ls --db data/quipu.db && ! grep -Eq '[0-9]{15}|~a' "$TMPDIR/out"
}

# A traversal is a job like others: its items are the packages, its gates the levels.
test_traversal() {
    printf 'Package: %s\nVersion: 1\nArchitecture: amd64\nDepends: libc6\n\n' curl > Packages
    printf 'Package: libc6\nVersion: 2\nArchitecture: amd64\n\n' >> Packages
    expect 0 - '' carto import --db f.db Packages && expect 0 - - carto deb:curl --id c --db f.db -o tree &&
        expect 0 '^status +completed$' '' show c --db f.db && matches '^ACTIVITY +STATUS' "$TMPDIR/out" && matches '^deb:libc6 +done ' "$TMPDIR/out" && matches '^level 1 +done ' "$TMPDIR/out" &&
        ! grep -Eq '[0-9]{15}' "$TMPDIR/out" && expect 0 'started 20' '' history c --db f.db && ! grep -Eq '[0-9]{15}' "$TMPDIR/out"
}

run_tests
