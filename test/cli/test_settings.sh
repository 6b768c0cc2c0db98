#!/bin/bash
# test_settings.sh - where to ask: options, variables, profiles, tokens; and what is refused
set -u
. test/cli/lib.sh

before_each() {
    mkdir -p "$XDG_CONFIG_HOME/quipu" && rm -f "$XDG_CONFIG_HOME/quipu/config.toml"
}

config() {
    cat > "$XDG_CONFIG_HOME/quipu/config.toml"
}

test_defaults() {
    expect 3 '' 'quipu.db: there is no such store; next: quipu serve' ls &&
        expect 0 '^a$' '' start t --id a && [ -f quipu.db ] && expect 0 '^a$' '' ls -q || return 1
    "$quipu" serve --listen 127.0.0.1:0 > serve.out 2> serve.err &
    server=$!
    servers+=("$server")
    eventually grep -q '^listening on unix' serve.out || return 1
    expect 0 'asked +unix:quipu-data/quipu.sock' '' whoami && expect 0 '' '' ls -q && expect 0 '^a$' '' ls -q --db quipu.db &&
        stop 9
    expect 0 '' '' ls -q && expect 0 'asked +.*quipu-data/quipu.db' '' whoami && # nothing works on it: it is asked itself
        expect 6 '' 'no server listens there; next: quipu serve' ls -s unix:quipu-data/quipu.sock
}

test_variables_and_profiles() {
    "$quipu" start t --id one --db one.db > /dev/null && "$quipu" start t --id two --db two.db > /dev/null || return 1
    config << END_CONFIG
# places
[profile.default]
db = "$PWD/one.db"
[profile.second]
db = "$PWD/two.db"
namespace = "default"
END_CONFIG
    expect 0 '^one$' '' ls -q &&
        expect 0 '^two$' '' ls -q --profile second &&
        QUIPU_PROFILE=second expect 0 '^two$' '' ls -q &&
        QUIPU_DB=two.db expect 0 '^two$' '' ls -q &&
        QUIPU_DB=two.db expect 0 '^one$' '' ls -q --db one.db &&
        QUIPU_DB=two.db expect 6 '' 'unix:gone' ls -q --server unix:gone &&
        QUIPU_DBB=two.db expect 0 '^one$' 'the variable QUIPU_DBB means nothing .nearest: QUIPU_DB.; next: quipu config show' ls -q &&
        QUIPU_TOKEN_FIEL=x expect 0 '^one$' 'nearest: QUIPU_TOKEN_FILE' ls -q &&
        QUIPU_NO_AUTH=maybe expect 2 '' 'QUIPU_NO_AUTH is 1 or 0' serve &&
        QUIPU_NAMESPACE=nowhere expect 3 '' - ls -q &&
        expect 2 '' 'there is no \[profile.third\]' ls --profile third
}

# wrong TEXT MESSAGE: such a file is refused, with these words
wrong() {
    printf "$1" | config
    expect 2 '' "config.toml:$2" ls
}

test_bad_configuration() {
    wrong 'server: x' '1:7: a = is missing; next: quipu help ls' &&
        wrong '[profile.default]\nsrever = "x"\n' "2:1: there is no setting 'srever' .nearest: server." &&
        wrong 'where = "x"' "1:1: there is no setting 'where' .nearest:" &&
        wrong 'profile = "x"' "1:1: there is no setting 'profile'" &&
        wrong '[servers]\n' '1:1: a table is .profile.NAME.' &&
        wrong '[profile.other]\nno_auth = "1"\n' '2:1: no_auth is true or false' &&
        wrong 'db = true' '1:1: db is a text in quotes, or a number' &&
        wrong 'db = "a"\ndb = "b"' '2:1: it comes a second time' || return 1
    rm "$XDG_CONFIG_HOME/quipu/config.toml"
    expect 2 '' "config.toml': No such file.*next: quipu help ls" ls --profile x &&
        expect 2 '' "'gone.toml': No such file" ls --config gone.toml &&
        expect 2 '' "'.': Is a directory" ls --config . || return 1
    echo 'max_connections = 0' > zero.toml
    expect 2 '' '--max-connections .zero.toml:1. must be between 1 and .*see quipu help serve' serve --config zero.toml &&
        QUIPU_KEEP=soon expect 2 '' '--keep .QUIPU_KEEP. must be a duration' serve
}

# shown NAME VALUE ORIGIN ARGUMENT...: the row of config show
shown() {
    local name=$1 value=$2 origin=$3
    shift 3
    expect 0 "^$name +$value +$origin\$" '' config show --origin "$@"
}

# Every source wins over those after it, and says who it is.
test_origins() {
    config << END_CONFIG
namespace = "top"
listen = "127.0.0.1:1"
max_connections = 7
no_auth = true
[profile.one]
namespace = "one"
store = "postgresql://ada:hush@db/x?password=hush"
no_auth = false
END_CONFIG
    shown namespace top '.*config.toml:1' && shown namespace one '.*config.toml:6' --profile one &&
        QUIPU_NAMESPACE=var shown namespace var QUIPU_NAMESPACE --profile one &&
        QUIPU_NAMESPACE=var shown namespace opt --namespace --namespace opt &&
        shown max_connections 7 '.*config.toml:3' && shown data_dir quipu-data default &&
        shown no_auth 1 '.*config.toml:4' && shown no_auth 0 '.*config.toml:8' --profile one &&
        QUIPU_NO_AUTH=0 shown no_auth 0 QUIPU_NO_AUTH && QUIPU_NO_AUTH=1 shown no_auth 1 QUIPU_NO_AUTH --profile one &&
        shown listen 127.0.0.1:2 --listen --listen 127.0.0.1:2 &&
        shown store 'postgresql://ada@db/x' '.*:7' --profile one &&
        QUIPU_TOKEN=qp_admin_hush_hush shown token '.hidden.' QUIPU_TOKEN &&
        expect 0 '^\{"name":"namespace","value":"one","origin":".*:6"\}$' '' config show -o jsonl --profile one &&
        ! QUIPU_TOKEN=hush "$quipu" config show --origin --profile one -o wide | grep hush &&
        echo 'namespace = "other"' > other.toml && shown namespace other other.toml:1 --config other.toml &&
        QUIPU_CONFIG=other.toml shown config other.toml QUIPU_CONFIG
}

# The server has its settings from the same file.
test_serve_reads_the_file() {
    printf 'data_dir = "data"\nlisten = "127.0.0.1:0"\nsocket = "none"\nlog_level = "error"\n' > own.toml
    QUIPU_LISTEN=127.0.0.1:0 "$quipu" serve --config own.toml > serve.out 2> serve.err &
    servers+=("$!")
    for _ in $(seq 100); do ! grep -q admin.token serve.out || break; sleep 0.05; done
    [ -f data/admin.token ] && [ ! -e data/quipu.sock ] && [ ! -s serve.err ] || { cat serve.out serve.err; return 1; }
}

test_whoami() {
    "$quipu" start t --db f.db > /dev/null && expect 0 '^role +admin$' '' whoami --db f.db && expect 0 '^token +local$' '' whoami --db f.db &&
        expect 0 '^namespace +billing$' '' whoami --db f.db -n billing && serve --socket none &&
        "$quipu" tokens create --role trigger --server "$url" --token-file data/admin.token > t.token && chmod 600 t.token &&
        expect 0 '^role +trigger$' '' whoami --server "$url" --token-file t.token
}

test_tokens() {
    serve --socket none || return 1
    export QUIPU_SERVER=$url
    expect 5 '' 'next: quipu whoami --token-file FILE' ls &&
        expect 0 'ID' '' ls --token-file data/admin.token &&
        QUIPU_TOKEN_FILE=data/admin.token expect 0 'ID' '' ls &&
        QUIPU_TOKEN=$(cat data/admin.token) expect 0 'ID' '' ls &&
        QUIPU_TOKEN=qp_admin_x_y expect 5 '' 'unknown, revoked or expired' ls &&
        cp data/admin.token open.token && chmod 644 open.token &&
        expect 5 '' 'others may read it; next: chmod 600 open.token' ls --token-file open.token &&
        expect 5 '' 'No such file' ls --token-file missing.token || return 1
    export QUIPU_TOKEN_FILE=data/admin.token
    "$quipu" tokens create --role viewer > viewer.token && chmod 600 viewer.token &&
        expect 0 'ID' '' ls --token-file viewer.token &&
        expect 5 '' 'lacks the scope start' start t --token-file viewer.token &&
        expect 5 '' 'lacks the scope admin' tokens ls --token-file viewer.token &&
        expect 0 'scopes +\["read"\]' '' whoami --token-file viewer.token &&
        ! grep -q "$(cut -d_ -f4 viewer.token)" serve.err
    local status=$?
    unset QUIPU_SERVER QUIPU_TOKEN_FILE
    return $status
}

test_doctor() {
    serve --socket none || return 1
    expect 0 'ok +token +known as' '' doctor --server "$url" --token-file data/admin.token &&
        expect 5 'error +token +.*next: quipu doctor --token-file' '' doctor --server "$url" &&
        "$quipu" start t --server "$url" --token-file data/admin.token > /dev/null &&
        expect 0 "warning +workers +no worker serves the topic 't', and 1 tasks wait; next: start a worker" '' \
            doctor --server "$url" --token-file data/admin.token &&
        expect 0 'ok +lock +a process works on it \(quipu [0-9]+\)' '' doctor --db data/quipu.db &&
        chmod 644 data/quipu.db &&
        expect 0 'warning +mode +others .*next: chmod 600' '' doctor --db data/quipu.db &&
        expect 0 '"level":"warning"' '' doctor --db data/quipu.db -o json && jq -e .findings[0].what < "$TMPDIR/out" > /dev/null &&
        expect 3 'error +store +.*no such file; next: quipu serve' '' doctor --db missing.db &&
        printf 'this is no store' > foreign.db && chmod 600 foreign.db &&
        expect 1 'error +store +it cannot be opened; next: quipu fsck' 'too short' doctor --db foreign.db &&
        expect 6 'error +server +it does not answer; next: quipu serve' - doctor --server unix:gone
}

test_no_color_without_a_terminal() {
    "$quipu" start t --id a --db f.db > /dev/null || return 1
    "$quipu" ls --db f.db > out && ! grep -q $'\033' out &&
        script -qec "$quipu ls --db f.db" /dev/null < /dev/null > tty.out && grep -q $'\033\[1m' tty.out &&
        NO_COLOR=1 script -qec "$quipu ls --db f.db" /dev/null < /dev/null > plain.out && ! grep -q $'\033' plain.out &&
        script -qec "$quipu ls --no-color --db f.db" /dev/null < /dev/null > plain.out && ! grep -q $'\033' plain.out
}

run_tests
