#!/bin/bash
# test_jobs.sh - commands about jobs: on a server and on a file, with equal output, and every exit code
set -u
. test/cli/lib.sh

# on_both TEST: the test's body with a file, then with a server; $where is how each is named
on_both() {
    where="--db $PWD/file.db"
    "$1" || { echo "with $where"; return 1; }
    serve || return 1
    where="--server unix:data/quipu.sock"
    "$1" || { echo "with $where"; return 1; }
}

# same ARGUMENT...: the same question of both has the same answer, but for times
same() {
    diff <("$quipu" "$@" --db file.db 2>&1 | hide) <("$quipu" "$@" --server unix:data/quipu.sock 2>&1 | hide)
}
hide() {
    # Whether somebody serves a topic is known to a server alone.
    sed -E '/^unserved|no worker serves/d; s/,"unserved":\{[^}]*\}//; s/20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/TIME/g; s#(/[^ ]*)?file.db|unix:data/quipu.sock#PLACE#g; s/ --(db|server) PLACE$/ --TARGET/; s/"pos":"?[0-9]+"?/"pos":0/g; s/pos: .*/pos: 0/'
}

body_start() {
    local talk="^accepted; no worker serves 'greet' yet$"
    [[ $where != *--db* ]] || talk=''
    expect 0 '^g1$' "$talk" start greet name=Ada n:=3 --id g1 $where &&
        expect 0 '^g1$' "$talk" start greet name=Ada n:=3 --id g1 $where &&
        expect 0 '^g1$' '' start greet name=Ada n:=3 --id g1 -q $where &&
        expect 4 '' 'another input.*next: quipu show g1 (--db|--server) [^ ]+$' start greet name=Eve --id g1 $where &&
        expect 0 '^[0-9a-f-]{36}$' "$talk" start greet '{"a":[1]}' $where &&
        expect 0 '"id":"g2"' '' start greet --id g2 -o json --attr team=x --priority 3 --delay 1h --expire 2h --limit-key k --custom-id c1 $where &&
        expect 0 '"priority":3' '' show g2 -o json $where &&
        expect 0 '"attributes":\{"team":"x"\}' '' show g2 -o json $where &&
        expect 0 '"custom_id":"c1"' '' show g2 -o json $where &&
        expect 0 '"status":"waiting"' '' show g2 -o json $where &&
        expect 4 '' "the custom id 'c1' is that of the open job 'g2'" start greet x=1 --custom-id c1 $where
}
test_start() { on_both body_start; }

test_input() {
    printf '{"from":"file"}' > in.json
    printf 'some text\n' > in.txt
    stdin=in.json expect 0 - '' start t - --id a --db f.db &&
        expect 0 '"input":\{"from":"file"\}' '' show a -o json --db f.db &&
        expect 0 - '' start t @in.json --id b --db f.db &&
        expect 0 '"input":\{"from":"file"\}' '' show b -o json --db f.db &&
        expect 0 - '' start t x=@in.txt y:=@in.json z= --id c --db f.db &&
        expect 0 '"input":\{"x":"some text\\n","y":\{"from":"file"\},"z":""\}' '' show c -o json --db f.db &&
        expect 0 - '' start t 42 --id d --db f.db &&
        expect 2 '' "^quipu: start: x:=\{: .*at byte" start t 'x:={' --db f.db &&
        expect 2 '' "'nonsense' is not name=text|input: " start t nonsense --db f.db &&
        expect 2 '' "'=x' is not name=text" start t =x b=c --db f.db &&
        expect 2 '' 'input: .*twice' start t x=1 x=2 --db f.db &&
        expect 2 '' "'missing.json': No such file" start t @missing.json --db f.db
}

body_show() {
    "$quipu" start greet --id order-1 $where > /dev/null && "$quipu" start greet --id order-10 $where > /dev/null &&
        "$quipu" start greet --id other $where > /dev/null &&
        expect 0 '^id +order-1$' - show order-1 $where &&
        expect 0 '^greet +waiting .*for a worker of greet' - show order-1 $where && ! grep -q 00110 "$TMPDIR/out" &&
        expect 0 '^run,0,0 +greet +001100000000000 +waiting' - show order-1 -o wide $where &&
        expect 0 '"activities":\[.*"address":"run,0,0","name":"greet","mark":"waiting"' '' show order-1 -o json $where &&
        expect 0 '^    mark: "waiting"$' '' show order-1 -o yaml $where &&
        expect 0 '^id +other$' - show oth $where &&
        expect 4 '' "several jobs begin with 'order': 'order-10?', 'order-10?'; next: quipu ls" show order $where &&
        expect 3 '' "no job 'nope' in .*next: quipu ls" show nope $where &&
        expect 2 '' 'the id of a job is not empty' show '' $where &&
        expect 2 '' 'JOB is missing; see quipu help show' show $where &&
        expect 0 '^ +1|^1 ' '' history order-1 $where &&
        expect 0 '"journal"|"activities"' '' export order-1 $where &&
        expect 3 '' 'no job' cancel nope $where &&
        expect 3 '' 'no job' history nope $where
}
test_show() { on_both body_show; }

body_ends() {
    local late="no worker serves the topic 't-stays'; next: quipu topics"
    [[ $where != *--db* ]] || late='a file does nothing by itself; next: quipu run --db .*file.db'
    for id in ok bad gone killed stays; do
        "$quipu" start "t-$id" --id "$id" --attempts 1 $where > /dev/null || return 1
    done
    expect 0 '^gone$' '' cancel gone --reason 'sold out' $where &&
        expect 11 '' "the job 'gone' is cancelled: .*sold out" wait gone $where &&
        expect 0 '^killed$' '' kill killed $where &&
        expect 11 '' "'killed' is interrupted" wait killed $where &&
        expect 4 '' 'next: quipu show gone (--db|--server) [^ ]+$' cancel gone $where &&
        expect 0 '^stays$' '' pause stays $where &&
        expect 0 '^status +paused' - show stays $where &&
        expect 0 '^stays$' '' resume stays $where &&
        expect 0 '^status +running' - show stays $where &&
        expect 4 '' 'conflicts' retry stays $where &&
        expect 7 '' "'stays' has not ended in time: $late" wait stays --timeout 200ms $where &&
        expect 7 - 'has not ended in time' watch stays --timeout 200ms $where &&
        expect 0 '^again$' '' fork gone --id again x=1 $where &&
        expect 0 '"forked_from":"gone"' '' show again -o json $where &&
        expect 0 '"input":\{"x":"1"\}' '' show again -o json $where &&
        expect 0 '^[0-9a-f-]{36}$' '' retry gone $where &&
        expect 0 '^gone$' '' delete gone $where &&
        expect 3 '' 'no job' show gone $where &&
        expect 4 '' - delete stays $where
}
test_ends() { on_both body_ends; }

test_run_and_exit_codes() {
    "$quipu" start good name=Ada --id good --db f.db > /dev/null && "$quipu" start bad --id bad --attempts 1 --db f.db > /dev/null &&
        "$quipu" start none --id none --db f.db > /dev/null &&
        expect 0 '' "no worker for the topic 'none': 1 tasks wait" \
            run --db f.db --exec good='cat' --exec bad='echo broken >&2; exit 3' &&
        expect 0 '^\{"name":"Ada"\}$' '' wait good --db f.db &&
        expect 10 '' "'bad' is failed: .*exit code 3: broken.*next: quipu show bad" wait bad --db f.db &&
        expect 0 '"status":"completed"' '' wait good -o json --db f.db &&
        expect 0 '^   4 .*good +answered; the job is completed$' "the job 'good' is completed" watch good --db f.db &&
        expect 10 - "is failed" watch bad -q --db f.db &&
        expect 3 '' 'there is no such store; next: quipu start TOPIC --db missing.db' run --db missing.db &&
        [ ! -e missing.db ] &&
        expect 2 '' '--exec is TOPIC=PROGRAM' run --db f.db --exec nothing &&
        "$quipu" start text --id text --attempts 1 --db f.db > /dev/null &&
        expect 0 '' - run --db f.db --exec text='echo this is no JSON' --exec none=true &&
        expect 10 '' 'its output cannot be taken: json: expected' wait text --db f.db &&
        expect 0 '^null$' '' wait none --db f.db &&
        expect 0 '' ' 0 errors' fsck f.db
}

test_parked() {
    "$quipu" start kills --id k --db f.db > /dev/null || return 1
    # A worker that dies with the engine, again and again, is found out.
    for _ in $(seq 25); do
        (exec "$quipu" run --db f.db --exec kills='kill -9 $PPID' 2>&1) > /dev/null
    done
    expect 12 '' "'k' is parked: .*next: quipu show k" wait k --db f.db &&
        expect 0 '^k +kills' '' parked --db f.db &&
        expect 0 'warning +parked +1 jobs need a person; next: quipu parked' '' doctor --db f.db &&
        expect 0 '^k$' '' retry k --db f.db &&
        expect 0 '' '' run --db f.db --exec kills=cat &&
        expect 0 '^null$' '' wait k --db f.db
}

body_lists() {
    for i in 1 2 3 4 5 6 7; do
        "$quipu" start greet --id "j-$i" --attr "n=$i" $where > /dev/null || return 1
    done
    "$quipu" start other --id o $where > /dev/null &&
        expect 0 '^ID +WORKFLOW +STATUS' '' ls $where &&
        [ "$(wc -l < "$TMPDIR/out")" = 9 ] &&
        expect 0 '^j-7$' '' ls -q --where 'attr.n=7' $where &&
        expect 0 '^7$' '' ls --count --where 'workflow=greet' $where &&
        expect 0 '^j-1$' '' ls -o name --order oldest --limit 3 $where &&
        [ "$(wc -l < "$TMPDIR/out")" = 3 ] &&
        expect 0 '^\{"id":"j-1"' '' ls -o jsonl --order oldest --all $where &&
        [ "$(wc -l < "$TMPDIR/out")" = 8 ] &&
        expect 0 'there|STARTED' "there are more: --all, or --cursor '[^' ]+'\$" ls --limit 2 $where &&
        cursor=$(sed -n "s/.*--cursor '\(.*\)'/\1/p" "$TMPDIR/err") &&
        expect 0 '^j-6$' '' ls -q --limit 2 --cursor "$cursor" $where &&
        expect 0 '^  -$' '' ls -o yaml --limit 1 $where &&
        expect 2 '' "no such field.*next: quipu help ls" ls --where 'stat=1' $where &&
        expect 2 '' '--limit must be between' ls --limit 0 $where &&
        expect 2 '' 'output must be text, wide, json' ls -o xml $where &&
        expect 2 '' 'order' ls --order sideways $where &&
        expect 0 '^greet +7 +0' '' topics $where &&
        expect 0 '^ID +WORKFLOW' '' parked $where
}
test_lists() { on_both body_lists; }

# A list of several pages is printed page by page, and is the same as if it were one.
test_long_lists() {
    serve || return 1
    where="--server unix:data/quipu.sock"
    curl -sf --unix-socket data/quipu.sock -H 'Content-Type: application/json' -d '{"topic":"t"}' \
        'http://localhost/v1/jobs#[1-2100]' > /dev/null || return 1
    "$quipu" ls --all -o jsonl $where > all.jsonl && [ "$(wc -l < all.jsonl)" = 2100 ] &&
        "$quipu" ls --all -o wide $where > all.txt && [ "$(wc -l < all.txt)" = 2101 ] && [ "$(grep -c '^ID ' all.txt)" = 1 ] &&
        [ "$(awk '{ print length($0) }' all.txt | sort -u | wc -l)" = 2 ] &&
        "$quipu" ls --all -o json $where > all.json && diff <(jq -c '.items[]' all.json) all.jsonl &&
        "$quipu" ls --all -o yaml $where > all.yaml && [ "$(grep -c '^  -$' all.yaml)" = 2100 ] && [ "$(grep -c '^items:' all.yaml)" = 1 ] &&
        "$quipu" ls --limit 1500 -q $where > some && diff some <("$quipu" ls --all -q $where | head -1500) &&
        [ "$("$quipu" ls --limit 1500 -o json $where | jq -r .next_cursor)" != null ] &&
        expect 0 '^\{"items":\[\]\}$' '' ls --where 'status=failed' -o json $where &&
        expect 0 '^items: \[\]$' '' ls --where 'status=failed' -o yaml $where
}

body_bulk() {
    for i in 1 2 3 4 5; do
        "$quipu" start bulk --id "b-$i" $where > /dev/null || return 1
    done
    expect 2 '' '5 jobs fit: b-[0-9] b-[0-9] b-[0-9]$' cancel --where 'workflow=bulk' $where &&
        grep -q 'say --yes' "$TMPDIR/err" &&
        expect 0 '^5 jobs fit: b-' '' cancel --where 'workflow=bulk' --dry-run $where &&
        expect 0 '^5$' '' ls --count --where 'status=running' $where &&
        expect 0 '^pause: 5 done, 0 refused, batch [0-9a-f-]{36}$' '' pause --where 'workflow=bulk' --yes $where &&
        expect 0 '^cancel: 5 done, 0 refused' '' cancel --where 'workflow=bulk' --yes --rate 2/s $where &&
        batch=$(sed 's/.*batch //' "$TMPDIR/out") &&
        expect 0 '^action +cancel$' '' batches show "$batch" $where && matches '^where +workflow=bulk$' "$TMPDIR/out" &&
        matches '^done +5$' "$TMPDIR/out" && matches '^actor +local$' "$TMPDIR/out" &&
        expect 0 '"jobs":\["b-' '' batches show "$batch" -o json $where &&
        [ "$(jq -c '.jobs|sort' "$TMPDIR/out")" = '["b-1","b-2","b-3","b-4","b-5"]' ] &&
        expect 3 '' 'there is no such batch' batches show 01980a3e-7c11-7b6e-9d43-0f4f6c1c2a55 $where &&
        expect 3 '' 'there is no such batch.*next: quipu help batches show' batches show nonsense $where &&
        expect 0 '^\{"batch":"[0-9a-f-]{36}","done":0,"refused":0\}$' '' cancel --where 'status=running' --yes -o json $where &&
        expect 0 '^[0-9a-f-]{36}$' '' retry --where 'status=cancelled' --yes -q $where &&
        expect 0 '^done +5$' '' batches show "$(cat "$TMPDIR/out")" $where &&
        expect 2 '' '--rate must be a number' cancel --where 'status=running' --yes --rate fast $where &&
        expect 2 '' "unexpected argument 'b-1'" cancel b-1 --where 'status=running' --yes $where
}
test_bulk() { on_both body_bulk; }

# A batch whose jobs do not fit into one line of the audit is told as a whole.
test_large_batch() {
    serve || return 1
    where="--server unix:data/quipu.sock"
    for i in $(seq 50); do
        printf '{"topic":"bulk","id":"%s-%d"}' "$(printf 'x%.0s' $(seq 200))" "$i" |
            curl -sf --unix-socket data/quipu.sock -H 'Content-Type: application/json' -d @- http://localhost/v1/jobs
    done > started && "$quipu" kill --where 'workflow=bulk' --yes -q $where > id &&
        "$quipu" batches show "$(cat id)" -o json $where > batch.json &&
        [ "$(jq .done batch.json)" = 50 ] && [ "$(jq '.jobs|unique|length' batch.json)" = 50 ] &&
        [ "$("$quipu" audit --all -o jsonl $where | jq -s '[.[]|select(.action=="batch")]|length')" -ge 3 ]
}

body_signal() {
    "$quipu" start greet --id s $where > /dev/null &&
        expect 0 '' '^kept$' signal s approve by=Ada --id once $where &&
        expect 0 '' '^kept before$' signal s approve by=Ada --id once $where &&
        expect 0 '"accepted":true,"outcome":"kept","repeated":false' '''' signal approve --key somebody '{"a":1}' --ttl 1h -o json $where &&
        expect 3 '' "no job 'nope'" signal nope approve $where &&
        expect 3 '' 'no deployed graph has a hook' signal s $where &&
        expect 2 '' 'must be a duration' signal s approve --ttl soon $where
}
test_signal() { on_both body_signal; }

body_store() {
    expect 0 '^billing$' '' namespaces create billing $where &&
        expect 4 '' 'is there already.*next: quipu help namespaces create' namespaces create billing $where &&
        expect 0 '^billing +(now|[0-9]+s ago)$' '' namespaces ls $where && expect 0 '^billing +20' '' namespaces ls -o wide $where &&
        expect 0 '^x$' - start greet --id x -n billing $where &&
        expect 3 '' "no job 'x'" show x $where &&
        expect 0 '^namespace +billing' - show x -n billing $where &&
        expect 3 '' - ls -n nowhere $where &&
        expect 0 '^qp_worker_[^ ]+$' '' tokens create --role worker --name w --topics 'g*' --expires 1d $where &&
        expect 0 'worker +w' '' tokens ls $where &&
        id=$("$quipu" tokens ls -q $where | tail -1) &&
        expect 0 '' '^revoked$' tokens revoke "$id" $where &&
        expect 3 '' - tokens revoke nobody $where &&
        expect 2 '' '--role is missing' tokens create $where &&
        expect 2 '' 'role' tokens create --role king $where &&
        expect 0 'scopes +\["read"' '' whoami $where &&
        expect 0 'namespace_create +billing +ok' '' audit --global $where
}
test_store() { on_both body_store; }

test_strict() {
    serve || return 1
    local where='-s unix:data/quipu.sock'
    expect 4 '' "no worker serves 'later', and no graph answers to it; next: quipu workers" start later --strict --id a $where &&
        expect 3 '' "no job 'a'" show a $where &&
        expect 4 '' "no worker serves 'later'" signal later --key k --strict $where &&
        expect 0 '^b$' "^accepted; no worker serves 'later' yet$" start later --id b $where &&
        curl -sf --unix-socket data/quipu.sock --json '{"worker":"w","topics":["later"],"wait":"0s"}' http://localhost/v1/work > task.json &&
        grep -q '"job":"b"' task.json &&
        expect 0 '^c$' '' start later --strict --id c $where && # it is busy, and serves
        expect 0 'later +1 +1 .*' '' topics $where
}

# Limits are set, listed and removed, on a file and over a server; the audit has them, and a viewer may only look.
body_limits() {
    expect 0 - - start charge --id first $where && expect 0 '^TOPIC +KEY +MAX' '' limits $where && expect 0 '^charge, key \*: at most 2 at once$' '' limits set charge --key '*' --max 2 $where &&
        expect 0 '^charge: at most 10 at once$' '' limits set charge --max 10 $where &&
        expect 0 '^\{"topic":"mail","key":"k","max":0\}$' '' limits set mail --key k --max 0 -o json $where &&
        expect 0 '^charge +10 +1 +0$' '' limits ls $where && matches '^charge +\* +2' "$TMPDIR/out" && matches '^mail +k +0' "$TMPDIR/out" &&
        expect 0 '^\{"topic":"charge","max":10,"ready":1,"held":0\}$' '' limits ls -o jsonl --limit 1 $where &&
        expect 0 '"next_cursor"' '' limits ls -o json --limit 1 $where &&
        [ "$("$quipu" limits ls --all -q $where | tr '\n' ' ')" = "charge charge mail " ] &&
        expect 0 '^charge, key \*: no limit of its own$' '' limits rm charge --key '*' $where &&
        expect 3 '' "topic 'charge' has no limit for key '\*'" limits rm charge --key '*' $where &&
        expect 3 '' "topic 'other' has no limit for jobs without a key" limits rm other $where &&
        expect 2 '' '--max is missing' limits set charge $where && expect 2 '' '--max must be between 0 and 2147483647' limits set charge --max -1 $where &&
        expect 2 '' 'TOPIC is missing' limits set --max 1 $where && [ "$("$quipu" limits ls --all -q $where | wc -l)" = 2 ]
}
test_limits() {
    on_both body_limits && expect 0 'limit_set +charge +ok' '' audit -s unix:data/quipu.sock &&
        "$quipu" tokens create --role viewer -s unix:data/quipu.sock > viewer && chmod 600 viewer &&
        expect 0 '^mail' '' limits ls -s "$url" --token-file viewer &&
        expect 5 '' - limits set charge --max 1 -s "$url" --token-file viewer
}

test_backup() {
    "$quipu" start greet --id x --db f.db > /dev/null &&
        expect 0 'copy.db' '' backup copy.db --db f.db &&
        expect 0 '^x$' '' ls -q --db copy.db &&
        expect 0 '' ' 1 jobs, 0 errors' fsck copy.db &&
        expect 4 '' 'is there already; next: quipu backup ANOTHER.db' backup copy.db --db f.db &&
        expect 4 '' 'only known to a server.*next: quipu workers --server URL' workers --db f.db &&
        expect 3 '' - backup copy2.db --db missing.db &&
        serve && "$quipu" start greet --id y -s unix:data/quipu.sock > /dev/null &&
        expect 0 '^monday.db$' '' backup monday.db -s unix:data/quipu.sock &&
        expect 0 '^y$' '' ls -q --db data/backups/monday.db &&
        expect 2 '' - backup ../evil.db -s unix:data/quipu.sock &&
        expect 0 '^y$' '' ls -q --db data/quipu.db &&
        expect 4 '' 'in use.*ask the server' start greet --db data/quipu.db &&
        expect 0 'tuesday.db' '' backup tuesday.db --db data/quipu.db
}

test_equal_output() {
    serve || return 1
    for where in "--db file.db" "--server unix:data/quipu.sock"; do
        "$quipu" start greet name=Ada --id e1 $where > /dev/null && "$quipu" start greet --id e2 --attr a=b $where > /dev/null &&
            "$quipu" cancel e2 --reason no $where > /dev/null || return 1
    done
    same show e1 -o wide && same show e1 -o json && same show e2 -o yaml && same ls -o json && same ls -o wide && same ls -q &&
        same history e1 -o wide && same history e2 -o jsonl && same topics -q && same namespaces ls && same whoami -o json && same export e2 &&
        same show nope && same cancel e2 && same ls --where 'no=1' && same start greet name=Eve --id e1 && same parked -o json &&
        same watch e2 -o wide && same wait e2
}

test_terminal_is_safe() {
    "$quipu" start greet "x=$(printf '\033[31m\xc2\x9b0m\xe2\x80\xae')" --id hostile --db f.db > /dev/null || return 1
    for format in text wide json jsonl yaml; do
        "$quipu" show hostile -o "$format" --db f.db > "$TMPDIR/out" 2>&1 || return 1
        ! grep -qP '\x1b|\xc2\x9b|\xe2\x80\xae' "$TMPDIR/out" || { cat -v "$TMPDIR/out"; return 1; }
    done
}

run_tests
