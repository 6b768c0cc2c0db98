#!/bin/bash
# test_graph_jobs.sh - jobs of graphs from the command line: codes of signals, counts, the live tree, the list of programs, how a command
# ends when its job does, colours, and what is said about input that is wrong
set -u
. test/cli/lib.sh

# Three graphs: one that waits for a signal of any code, one whose worker is named by its input, one that ends itself.
before_each() {
    cat > jobs.yaml << 'YAML'
app:
  id: jobs
  version: '1'
  graphs:
    - subscribes: ask
      activities:
        asked:
          type: trigger
          stats: { id: '{$self.output.data.name}' }
        heard:
          type: hook
          job:
            maps: { last: '{$self.hook.data.word}' }
        agreed: { type: hook, job: { maps: { agreed: true } } }
        refused: { type: hook, job: { maps: { agreed: false } } }
      transitions:
        asked: [{ to: heard }]
        heard:
          - { to: agreed, conditions: { code: 200 } }
          - { to: refused, conditions: { code: 409 } }
      hooks:
        answer:
          - to: heard
            conditions: { match: [{ expected: '{asked.output.data.name}', actual: '{$self.hook.data.name}' }] }
    - subscribes: work
      activities:
        begin: { type: trigger }
        do:
          type: worker
          topic: '{begin.output.data.topic}'
          input: { maps: { command: '{begin.output.data.command}', arguments: ['{begin.output.data.word}'] } }
          job: { maps: { said: '{$self.output.data.stdout}' } }
      transitions:
        begin: [{ to: do }]
    - subscribes: give.up
      activities:
        try: { type: trigger }
        stop: { type: interrupt, reason: 'not today' }
      transitions:
        try: [{ to: stop }]
YAML
    at=(--db f.db)
    expect 0 '^jobs 1: deployed, active$' '' deploy jobs.yaml --activate "${at[@]}"
}

run() {
    expect 0 '' "${err:-}" run "${at[@]}" --timeout 60s "$@"
}

# After 202 the hook waits on; every other code is what its transitions see, and ends it.
test_codes_of_signals() {
    expect 0 '^ann$' '' start ask name=ann "${at[@]}" && expect 0 '^bob$' '' start ask name=bob "${at[@]}" &&
        expect 0 '' '^delivered$' signal answer name=ann word=perhaps --code 202 "${at[@]}" && run &&
        expect 0 '^data +\{"last":"perhaps"\}' '' show ann "${at[@]}" && matches 'waiting .*for the signal answer' "$TMPDIR/out" &&
        expect 0 '5 paused +hook +answer' '' show ann -o wide "${at[@]}" && matches '^state +965900000000000' "$TMPDIR/out" &&
        expect 0 '' '^delivered$' signal answer name=ann word=yes "${at[@]}" && run &&
        expect 0 '^\{"last":"yes","agreed":true\}$' '' wait ann "${at[@]}" &&
        expect 0 '' '^kept$' signal answer name=ann word=late --id late --ttl 1h "${at[@]}" &&
        expect 0 '' '^kept before$' signal answer name=ann word=late --id late "${at[@]}" &&
        expect 0 '' '^delivered$' signal answer name=bob word=no --code 409 --id no "${at[@]}" && run &&
        expect 0 '' '^delivered before$' signal answer name=bob word=no --code 409 --id no "${at[@]}" &&
        expect 0 '^\{"last":"no","agreed":false\}$' '' wait bob "${at[@]}" &&
        expect 2 '' "code must be between 200 and 599, got '199'" signal answer name=bob --code 199 "${at[@]}" &&
        expect 2 '' "got '2x2'" signal answer name=bob --code 2x2 "${at[@]}" &&
        expect 0 '' ' 0 errors' fsck f.db
}

# An error that no transition takes fails the job.
test_code_that_nobody_takes() {
    expect 0 '^eve$' '' start ask name=eve "${at[@]}" &&
        expect 0 '' '^delivered$' signal answer name=eve why=ill --code 500 "${at[@]}" && run &&
        expect 10 '' "the job 'eve' is failed.*next: quipu show eve" wait eve "${at[@]}"
}

test_stats() {
    cat > sales.yaml << 'YAML'
app:
  id: sales
  version: '1'
  graphs:
    - subscribes: sale.made
      activities:
        sale:
          type: trigger
          stats:
            id: '{$self.output.data.number}'
            key: '{$self.output.data.shop}'
            granularity: 1h
            measures:
              - { measure: sum, target: '{$self.output.data.amount}' }
              - { measure: avg, target: '{$self.output.data.amount}' }
              - { measure: count, target: '{$self.output.data.amount}' }
              - { measure: count, target: '{$self.output.data.colour}' }
YAML
    expect 0 'active' '' deploy sales.yaml --activate "${at[@]}" &&
        expect 0 '^s1$' '' start sale.made number=s1 shop=Cusco amount:=10 colour=red "${at[@]}" &&
        expect 0 '^s2$' '' start sale.made number=s2 shop=Cusco amount:=32 colour=blue "${at[@]}" &&
        expect 0 '^s3$' '' start sale.made number=s3 shop=Lima amount:=5 colour=red "${at[@]}" &&
        expect 0 '^key +Cusco$' '' stats sale.made shop=Cusco colour=red amount:=10 --range 2h "${at[@]}" &&
        matches '^jobs +2$' "$TMPDIR/out" && matches '^colour:red +2$' "$TMPDIR/out" && matches '^amount:10 +1$' "$TMPDIR/out" &&
        expect 0 - '' stats sale.made shop=Cusco colour=red --range 2h -o json "${at[@]}" || return 1
    # The hour may turn between two starts: the segments are taken together.
    [ "$(jq -c '[.key, .count, ([.segments[].count] | add), ([.segments[].measures.amount.sum // 0] | add),
        (.facets | map(select(.facet == "colour:red"))[0].ids)]' "$TMPDIR/out")" = '["Cusco",2,2,42,["s1","s3"]]' ] ||
        { cat "$TMPDIR/out"; return 1; }
    expect 3 '' "no graph at 'ask.nobody' has stats.*next: quipu workflows ls" stats ask.nobody "${at[@]}" &&
        expect 0 '^jobs +0$' 'the data have no key.*as name=text' stats sale.made --range 2h "${at[@]}" &&
        expect 2 '' "range must be a duration" stats sale.made --range long "${at[@]}"
}

# call BODY: one call of a worker
call() {
    curl -sf --max-time 20 --unix-socket data/quipu.sock -H 'Content-Type: application/json' -d "$1" http://localhost/v1/work
}

# On a terminal a tree with the progress that the worker has told; elsewhere a line for every change.
test_watch() {
    local lines drawn token
    serve && at=(-s unix:data/quipu.sock) && expect 0 'active' '' deploy jobs.yaml --activate "${at[@]}" &&
        expect 0 '^w$' '' start work topic=slow --id w "${at[@]}" || return 1
    "$quipu" watch w "${at[@]}" > lines 2> talk &
    lines=$!
    COLUMNS=120 script -qec "$quipu watch w ${at[*]}" /dev/null < /dev/null > tree &
    drawn=$!
    token=$(call '{"worker":"w","topics":["slow"],"wait":"10s"}' | jq -r '.tasks[0].token') &&
        call "{\"worker\":\"w\",\"topics\":[],\"wait\":\"0s\",\"beats\":[{\"token\":\"$token\",\"progress\":{\"percent\":40}}]}" > beat || return 1
    for _ in $(seq 200); do grep -q percent tree && break; sleep 0.05; done
    call "{\"worker\":\"w\",\"topics\":[],\"wait\":\"0s\",\"results\":[{\"token\":\"$token\",\"output\":{\"stdout\":\"done\"}}]}" > answer
    wait "$lines" && wait "$drawn" || { cat lines talk tree beat answer; return 1; }
    matches "the job 'w' is completed" talk && matches 'do +answered' lines && ! grep -q $'\033' lines &&
        matches 'do .*running.*attempt 1, \{"percent":40\}' tree && matches 'do .*done' tree && matches 'work .*completed' tree && ! grep -q 0000000 tree
}

# Two jobs: what one of them asks for is on the list, and what the other does is not.
shell_jobs() {
    expect 0 '^yes$' '' start work topic=quipu.shell command=print word=hello --id yes "${at[@]}" &&
        expect 0 '^no$' '' start work topic=quipu.shell command=rm word=hello --id no "${at[@]}"
}

shell_ends() {
    expect 0 '^\{"said":"hello\\n"\}$' '' wait yes --timeout 60s "${at[@]}" &&
        expect 10 '' "the command is not on the operator's list; see --shell" wait no --timeout 60s "${at[@]}"
}

test_shell_of_run() {
    shell_jobs && err="no worker for the topic 'quipu.shell': 2 tasks wait; next: quipu run --shell NAME=/PROGRAM" run &&
        run --shell print=/bin/echo && shell_ends &&
        expect 2 '' "'gone=/no/such/program' is no program that can be started" run --shell gone=/no/such/program "${at[@]}" &&
        expect 2 '' "'echo' is not of the form name=/the/program" run --shell echo "${at[@]}"
}

test_shell_of_serve() {
    expect 2 '' "'print=echo' is not of the form" serve --shell print=echo --data-dir other &&
        serve --shell print=/bin/echo && at=(-s unix:data/quipu.sock) &&
        expect 0 'active' '' deploy jobs.yaml --activate "${at[@]}" && shell_jobs && shell_ends || return 1
    stop TERM && serve && expect 0 '^alone$' '' start work topic=quipu.shell command=print --id alone "${at[@]}" &&
        expect 0 - "no worker serves the topic 'quipu.shell'" show alone "${at[@]}" &&
        expect 7 '' "in time: no worker serves the topic 'quipu.shell'; next: quipu topics" wait alone --timeout 1s "${at[@]}" &&
        expect 0 - '' start ask name=slow "${at[@]}" && expect 7 '' "in time; next: quipu watch slow" wait slow --timeout 1s "${at[@]}"
}

test_shell_of_dev() {
    mkdir app && cp jobs.yaml app/ || return 1
    "$quipu" dev app --shell print=/bin/echo --data-dir data --listen 127.0.0.1:0 > dev.out 2> dev.err &
    servers+=("$!")
    for _ in $(seq 200); do grep -q 'jobs 1 is active' dev.out && break; sleep 0.05; done
    at=(-s unix:data/quipu.sock)
    shell_jobs && shell_ends || { cat dev.out dev.err; return 1; }
    expect 2 '' "'nowhere': there is no such directory; next: quipu new hello" dev nowhere && [ ! -e quipu-data ]
}

# 10 failed, 11 cancelled or interrupted, 12 parked: of wait and of watch.
test_exit_codes() {
    expect 0 '^f$' '' start work topic=quipu.fail --id f "${at[@]}" && expect 0 '^i$' '' start give.up --id i "${at[@]}" &&
        expect 0 '^c$' '' start ask name=c "${at[@]}" && expect 0 '^k$' '' start ask name=k "${at[@]}" && run &&
        expect 0 '^c$' '' cancel c --reason 'sold out' "${at[@]}" && expect 0 '^k$' '' kill k "${at[@]}" && run || return 1
    expect 10 '' 'it was asked to fail' wait f "${at[@]}" && expect 10 - "'f' is failed" watch f "${at[@]}" &&
        expect 11 '' 'not today' wait i "${at[@]}" && expect 11 - "'i' is interrupted" watch i "${at[@]}" &&
        expect 11 '' 'sold out' wait c "${at[@]}" && expect 11 - "'c' is cancelled" watch c "${at[@]}" &&
        expect 11 '' "'k' is interrupted" wait k "${at[@]}" &&
        expect 7 '' "'late' has not ended in time: a file does nothing by itself; next: quipu run --db .*f.db" start ask name=late --wait --timeout 1s "${at[@]}"
}

test_exit_code_of_parked() {
    expect 0 '^p$' '' start work topic=kills --id p "${at[@]}" || return 1
    for _ in $(seq 25); do # a worker that dies with the engine, again and again, is found out
        (exec "$quipu" run "${at[@]}" --exec kills='kill -9 $PPID' 2>&1) > /dev/null
    done
    expect 12 '' "'p' is parked: .*next: quipu show p" wait p "${at[@]}" && expect 12 - "'p' is parked" watch p "${at[@]}" &&
        expect 0 '^p +work' '' parked "${at[@]}" && expect 0 '^p$' '' retry p "${at[@]}" &&
        run --exec kills="echo '{\"stdout\":\"lived\"}'" && expect 0 '^\{"said":"lived"\}$' '' wait p "${at[@]}"
} 2> /dev/null

test_colours() {
    expect 0 '^f$' '' start work topic=quipu.fail --id f "${at[@]}" && expect 0 '^ann$' '' start ask name=ann "${at[@]}" && run &&
        expect 0 'begin.*fillcolor="#aaddaa"' '' graph jobs.yaml --job f -o dot "${at[@]}" && matches 'do.*fillcolor="#ff9999"' "$TMPDIR/out" &&
        ! grep -q heard "$TMPDIR/out" &&
        expect 0 'heard.*:::state5$' '' graph jobs.yaml --job ann -o mermaid "${at[@]}" && matches 'agreed.*:::state9$' "$TMPDIR/out" &&
        matches 'classDef state5 fill:#ffdd88' "$TMPDIR/out" &&
        expect 0 '^  7 do \(worker\)' '' graph jobs.yaml --job f "${at[@]}" &&
        expect 2 '' "dot, mermaid or text with --job, got 'json'" graph jobs.yaml --job f -o json "${at[@]}" &&
        expect 3 '' "no job 'nope'" graph jobs.yaml --job nope "${at[@]}" || return 1
    sed "s/version: '1'/version: '2'/" jobs.yaml > two.yaml
    expect 0 '^  7 do' 'the job is one of jobs/1, and the file is jobs/2' graph two.yaml --job f "${at[@]}"
}

# What is wrong, what is meant, and where to look: before anything is asked.
test_bad_input() {
    local command
    echo 'no graph at all' > word.yaml && printf 'app: {\n' > torn.yaml && : > empty.yaml && printf 'app: \xff\n' > bytes.yaml
    for command in graph deploy; do
        expect 1 '' 'word.yaml:1:1: .*\[kind_wrong\]' $command word.yaml "${at[@]}" && matches 'begin with app:' "$TMPDIR/err" &&
            expect 1 '' 'torn.yaml:[0-9]+:[0-9]+: .*\[yaml_syntax\]' $command torn.yaml "${at[@]}" &&
            expect 1 '' 'empty.yaml:1:1: .*\[yaml_empty\]' $command empty.yaml "${at[@]}" &&
            expect 1 '' 'bytes.yaml:1:6: .*\[yaml_bytes\]' $command bytes.yaml "${at[@]}" &&
            expect 2 '' "nowhere.yaml': No such file" $command nowhere.yaml "${at[@]}" || return 1
    done
    for command in 'start ask' 'signal answer name=ann' 'stats ask'; do
        expect 2 '' "'word' is not name=text, name:=JSON, @FILE or JSON; next: quipu help" $command a=b word "${at[@]}" &&
            expect 2 '' 'n:=none: .*next: n=none when a text is meant' $command n:=none "${at[@]}" &&
            expect 2 '' "'=b' is not name=text" $command a=b =b "${at[@]}" || return 1
    done
    expect 2 '' "'word' is not name=text" start ask word "${at[@]}" && expect 2 '' "'word' is not name=text" stats ask word "${at[@]}" &&
        expect 3 '' 'without a job: quipu signal answer name=text' signal answer word "${at[@]}" &&
        expect 2 '' "the payload lacks what hooks at 'answer' are found by: name \(jobs/1\)" signal answer nam=ann "${at[@]}" &&
        expect 3 '' "no deployed graph has a hook at 'answers'.*; next: quipu workflows ls" signal answers name=ann "${at[@]}" &&
        expect 0 '^jobs +1 +1 +ask, work, give.up +answer *$' '' workflows ls "${at[@]}" &&
        expect 3 '' "no version '9' of 'jobs'.*next: quipu workflows ls" workflows diff jobs 1 9 "${at[@]}" &&
        expect 3 '' "no job 'nobody'.*next: quipu ls" watch nobody "${at[@]}"
}

run_tests
