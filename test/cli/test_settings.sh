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
    for _ in $(seq 100); do [ ! -S quipu-data/quipu.sock ] || break; sleep 0.05; done
    sleep 0.2
    expect 0 'asked +unix:quipu-data/quipu.sock' '' whoami && expect 0 '' '' ls -q && expect 0 '^a$' '' ls -q --db quipu.db &&
        stop 9
    expect 6 '' 'no server listens there; next: quipu serve' ls
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
        QUIPU_DBB=two.db expect 0 '^one$' 'the variable QUIPU_DBB means nothing' ls -q &&
        QUIPU_NO_AUTH=maybe expect 2 '' 'QUIPU_NO_AUTH is 1 or 0' serve &&
        QUIPU_NAMESPACE=nowhere expect 3 '' - ls -q &&
        expect 2 '' 'there is no \[profile.third\]' ls --profile third
}

test_bad_configuration() {
    echo 'server: x' | config
    expect 2 '' 'config.toml:1: neither' ls || return 1
    printf '[profile.default]\nsrever = "x"\n' | config
    expect 2 '' 'config.toml:2: neither' ls || return 1
    rm "$XDG_CONFIG_HOME/quipu/config.toml"
    expect 2 '' "profile 'x': .*No such file" ls --profile x
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
        expect 0 "warning +workers +nobody serves the topic 't', and 1 tasks wait; next: start a worker" '' \
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
