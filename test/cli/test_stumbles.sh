#!/bin/bash
# test_stumbles.sh - what people stumble over: where options stand, which store is meant, what an error says to do next
set -u
. test/cli/lib.sh

# Common options also stand in front of the command, with their values in either way.
test_options_in_front() {
    expect 0 '^j$' '' --db f.db start t --id j && expect 0 '^j$' '' --db=f.db -q ls && expect 0 '^j$' '' -o name --no-color --db f.db ls &&
        expect 0 '^NAME' '' --db f.db namespaces ls && expect 2 '' "unknown command 'lss' \(nearest: ls\)" --db f.db lss &&
        expect 2 '' "a command is missing behind 'f.db'" --db f.db && expect 2 '' "'--where' is no option that stands in front" --where x ls &&
        expect 2 '' '--db is given twice' --db f.db ls --db f.db && expect 0 '^usage: quipu ls' '' --db f.db ls --help &&
        expect 0 '^usage: quipu COMMAND' '' --help
}

# served SOCKET: a server works on the data directory of the socket
test_the_store_that_is_meant() {
    expect 3 '' 'quipu.db: there is no such store; next: quipu serve' ls &&
        "$quipu" start t --id file --db quipu.db > /dev/null && expect 0 '^file$' '' ls -q || return 1
    mkdir -m 700 quipu-data && "$quipu" start t --id data --db quipu-data/quipu.db > /dev/null && expect 0 '^data$' '' ls -q &&
        expect 0 '' ' 1 jobs, 0 errors' fsck && expect 3 '' - show file || return 1
    "$quipu" serve --listen 127.0.0.1:0 > serve.out 2> serve.err &
    server=$!
    servers+=("$server")
    eventually grep -q '^listening on unix' serve.out && expect 0 '^asked +unix:' '' whoami && expect 0 '^data$' '' ls -q || return 1
    [ "$(grep -c listening serve.out)" = 2 ] && ! grep -q listening serve.err || { cat serve.out serve.err; return 1; }
    stop 9
    [ -S quipu-data/quipu.sock ] && expect 0 '^data$' '' ls -q && expect 0 '^asked +.*quipu-data/quipu.db$' '' whoami
}

# The note of a server on the default port is only believed when its owner alone can write it, and its socket answers.
test_a_server_of_the_same_user() {
    export XDG_STATE_HOME=$PWD/state
    serve && "$quipu" start t --id elsewhere -s unix:data/quipu.sock > /dev/null && mkdir -p state/quipu empty && cd empty || return 1
    expect 3 '' 'there is no such store' ls && realpath ../data/quipu.sock > ../state/quipu/server && expect 0 '^elsewhere$' '' ls -q &&
        chmod 666 ../state/quipu/server && expect 3 '' 'there is no such store' ls && chmod 600 ../state/quipu/server || return 1
    stop TERM
    expect 3 '' 'there is no such store' ls
    local status=$?
    cd .. && unset XDG_STATE_HOME
    return $status
}

test_filters() {
    for id in a b c; do "$quipu" start "t-$id" --id $id --attr "n=it is $id" --db f.db > /dev/null || return 1; done
    expect 0 '^a$' '' ls -q --where "workflow='t-a'" --db f.db && expect 0 '^b$' '' ls -q --where "attr.n='it is b'" --db f.db &&
        [ "$("$quipu" ls -q --where "id='a' or id=\"c\"" --db f.db | sort | tr '\n' ' ')" = "a c " ] &&
        expect 2 '' "no such field \(nearest: status;.* at character 1: 'stats=x'" ls --where stats=x --db f.db &&
        expect 2 '' "a quote that does not end" ls --where "workflow='t" --db f.db
}

# A custom id that is taken names the job that has it; the same start again is the same job.
body_custom_id() {
    expect 0 '^one$' - start t n=1 --custom-id c --id one $where && expect 0 '^one$' - start t n=1 --custom-id c --id one $where &&
        expect 4 '' "the custom id 'c' is that of the open job 'one'.*next: quipu show one (--db f.db|--server unix:data/quipu.sock)$" start t n=1 --custom-id c --id two $where &&
        expect 4 '' "the custom id 'c' is that of the open job 'one'.*next: quipu show one (--db f.db|--server unix:data/quipu.sock)$" start t n=2 --custom-id c $where
}
test_custom_id() {
    where="--db f.db"
    body_custom_id && serve && where="-s unix:data/quipu.sock" && body_custom_id &&
        [ "$(curl -s --unix-socket data/quipu.sock --json '{"topic":"t","custom_id":"c","id":"x"}' http://localhost/v1/jobs | jq -r .status)" = 409 ]
}

test_deploy_and_graph_for_programs() {
    cp "$root/examples/graphs/polling.yaml" p.yaml
    expect 0 '"active":false' '' deploy p.yaml -o json --db f.db && expect 0 '"active":true' '' deploy p.yaml --activate -o json --db f.db &&
        expect 0 '"active":true' '' deploy p.yaml -o json --db f.db && expect 0 'was there, active$' '' deploy p.yaml --db f.db || return 1
    sed 's/type: cycle/type: cicle/' p.yaml > bad.yaml
    expect 1 '^\{"errors":\[\{"file":"bad.yaml","line":[0-9]+,"column":[0-9]+,"code":"type_unknown","message":".*","hint":".*"\}.*\],"count":[0-9]+\}$' '' graph bad.yaml -o json &&
        expect 1 '"code":"type_unknown"' '' deploy bad.yaml -o json --db f.db && expect 1 '' 'bad.yaml:[0-9]+:[0-9]+: ' graph bad.yaml
}

# The words of the command stand once, fields name the nearest one, and what `quipu` alone lists has no second word.
test_words() {
    expect 2 '' '^quipu: start: topic: byte 0x20' start 'no topic' --db f.db && "$quipu" start t --id j --db f.db > /dev/null &&
        expect 4 '' "^quipu: retry: 'j': .*; next: quipu show j --db f.db$" retry j --db f.db && expect 0 '^NAME +ACTIVE' '' workflows --db f.db && expect 0 '^ID' '' tokens --db f.db &&
        expect 0 '^ run$' '' help && matches '^ operate$' "$TMPDIR/out" && expect 0 '^common options:$' '' help ls &&
        expect 0 '--id ID +of the signal' '' help signal && expect 0 '--limit N +the most rows .default 1000' '' help sql &&
        expect 0 '--output FORMAT +text, dot, mermaid' '' help graph && ! grep -q 'Prints the job' <("$quipu" help wait) || return 1
    serve && expect 0 '^j$' - start t --id j -s unix:data/quipu.sock &&
        curl -s --unix-socket data/quipu.sock --json '{"topik":"t"}' http://localhost/v1/jobs | grep -q 'JobStart has no such field (nearest: topic)' &&
        curl -si --unix-socket data/quipu.sock http://localhost/ > front && grep -qi '^content-type: text/html' front && grep -q 'href="/docs"' front &&
        diff <(curl -s --unix-socket data/quipu.sock http://localhost/v1/jobs/j/events) <(curl -s --unix-socket data/quipu.sock http://localhost/v1/jobs/j/history)
}

# A server that cannot start leaves nothing behind, and reads what it was told before it makes anything.
test_a_failed_serve_leaves_nothing() {
    serve || return 1
    expect 4 '' 'Address already in use' serve --data-dir new --listen "${url#http://}" && [ ! -e new ] &&
        expect 2 '' 'cannot be read' serve --data-dir new --listen 127.0.0.1:0 --tls-key nokey --tls-cert nocert && [ ! -e new ] &&
        expect 2 '' 'both a key and a certificate' serve --data-dir new --listen 127.0.0.1:0 --tls-key nokey && [ ! -e new ] &&
        mkdir -m 700 mine && expect 4 '' - serve --data-dir mine --listen "${url#http://}" && [ -d mine ]
}

# Each kind of project is made under its own name, and its files are good.
test_new() {
    expect 0 '^shop/shop.yaml$' 'next: quipu dev shop --exec shop.greet=shop/greet.sh' new shop && expect 0 '^shop 1: ' '' graph shop/shop.yaml &&
        [ "$(echo '{"name":"Ada"}' | shop/greet.sh)" = '{"greeting":"Hello, Ada"}' ] && ! grep -q '@' shop/* &&
        expect 4 '' 'File exists' new shop && expect 2 '' '--from is hello, approval' new x --from y && expect 2 '' 'a name is made of' new 'a b' &&
        expect 0 '^leave/leave.yaml$' 'next: quipu dev leave' new leave --from approval && expect 0 '^leave 1: ' '' graph leave/leave.yaml || return 1
    expect 0 - 'next: quipu carto import --db pkgs/pkgs.db pkgs/Packages' new pkgs --from carto && expect 0 - '' carto import --db f.db pkgs/Packages &&
        expect 0 'deb:libz1' '' carto deb:pkgs --db f.db -o tree && expect 0 '^d/flow.c$|^d/other.c$' 'make -C d' new other d --from flow-c &&
        gcc -std=gnu17 -Wall -Wextra -Werror -fsyntax-only -I"$root/include" d/other.c && grep -q $'^\t.*-o \$@$' d/Makefile &&
        expect 0 'py/worker.py' - new py --from flow-python && cmp py/worker.py "$root/docs/worker.py" && python3 -m py_compile py/flow.py py/worker.py
}

# The flow of a new project runs, waits, and ends.
test_new_python_flow_runs() {
    serve && "$quipu" new greeting --from flow-python > /dev/null 2>&1 || return 1
    sed -i 's/sleep(5)/sleep(0.1)/' greeting/flow.py
    (cd greeting && QUIPU_URL=$url QUIPU_TOKEN=$(cat ../data/admin.token) exec python3 flow.py) 2> worker.err &
    servers+=("$!")
    expect 0 '^first$' - start --workflow greeting name=Ada --id first -s unix:data/quipu.sock &&
        eventually sh -c "'$quipu' show first -s unix:data/quipu.sock | grep -q 'for the signal approved'" &&
        expect 0 - - signal first approved by=Ada -s unix:data/quipu.sock &&
        expect 0 '^\{"greeting":"Hello, Ada","approved":true\}$' '' wait first --timeout 20s -s unix:data/quipu.sock || { cat worker.err; return 1; }
}

run_tests
