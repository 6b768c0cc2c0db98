#!/bin/bash
# test_serve.sh - quipu serve as a shell sees it: what it refuses, tokens, sockets, TLS, its end, and that no secret leaks
#
# A test is a function test_*; it fails by returning non-zero. The last line counts them.
set -u
build=${QP_BUILD:-build}
quipu=$PWD/$build/quipu
manage=$PWD/$build/test/tools/manager
cd "$TMPDIR" || exit 1
server=
url=

# serve ARGUMENT... : starts a server on a port of its own, in the directory data; $url is where it is
serve() {
    rm -f out err
    "$quipu" serve --data-dir data --listen 127.0.0.1:0 "$@" > out 2> err &
    server=$!
    for _ in $(seq 200); do
        url=$(sed -n 's/^listening on \(http.*\)$/\1/p' out 2> /dev/null)
        [ -n "$url" ] && return 0
        kill -0 "$server" 2> /dev/null || break
        sleep 0.05
    done
    echo "the server does not start:"
    cat out err
    return 1
}

stop() {
    kill -TERM "$server" && wait "$server"
}

# refused PATTERN ARGUMENT... : it does not start, and says why
refused() {
    local pattern=$1 status
    shift
    timeout 20 "$quipu" serve "$@" > out 2> err
    status=$?
    if [ "$status" -eq 0 ] || [ "$status" -ge 100 ] || ! grep -Eq -- "$pattern" err; then
        echo "quipu serve $*: exit $status, not refused with '$pattern':"
        cat out err
        return 1
    fi
}

# status EXPECTED CURL-ARGUMENT...
status() {
    local want=$1 got
    shift
    got=$(curl -s -o body -w '%{http_code}' --max-time 20 "$@")
    if [ "$got" != "$want" ]; then
        echo "curl $*: $got, not $want: $(cat body)"
        return 1
    fi
}

test_refusals() {
    refused 'TLS is needed' --data-dir d1 --listen 0.0.0.0:0 &&
        refused 'only addresses of this machine' --data-dir d1 --listen 0.0.0.0:0 --no-auth &&
        refused 'both a key and a certificate' --data-dir d1 --listen 127.0.0.1:0 --tls-key x &&
        refused 'ADDRESS:PORT' --data-dir d1 --listen nowhere &&
        refused 'up to 65535' --data-dir d1 --listen 127.0.0.1:99999 &&
        refused 'up to 65535' --data-dir d1 --listen 127.0.0.1:-1 &&
        refused 'unknown option' --data-dri d1 &&
        refused 'is given twice' --data-dir d1 --data-dir d2 &&
        refused '--max-body must be' --data-dir d1 --max-body 12 &&
        mkdir -m 755 open && refused 'chmod 700' --data-dir open --listen 127.0.0.1:0 &&
        "$quipu" serve --help | grep -q -- --listen
}

test_first_token() {
    serve || return 1
    [ "$(stat -c %a data data/admin.token data/quipu.db | tr '\n' ' ')" = "700 600 600 " ] &&
        status 401 "$url/v1/jobs" &&
        status 200 -H "Authorization: Bearer $(cat data/admin.token)" "$url/v1/jobs" &&
        status 200 "$url/livez" && status 200 "$url/readyz" &&
        refused 'in use' --data-dir data --listen 127.0.0.1:0 &&
        stop && serve && ! grep -q 'a token' out && stop
}

test_unix_socket() {
    rm -f out err
    "$quipu" serve --data-dir socketed --socket "$TMPDIR/q.sock" > out 2> err &
    server=$!
    for _ in $(seq 100); do [ -S q.sock ] && grep -q listening out && break; sleep 0.05; done
    [ "$(stat -c %a q.sock)" = 600 ] &&
        status 200 --unix-socket q.sock http://localhost/v1/whoami && grep -q '"local"' body && stop && [ ! -e q.sock ]
}

# certificate NAME: a new key and certificate, and what trusts it as NAME.pem
certificate() {
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost > /dev/null 2>&1 && cp cert.pem "$1.pem"
}

# A worker waits at the server for tasks.
polls() {
    curl -s --max-time 5 --unix-socket data/quipu.sock http://localhost/v1/workers | grep -q '"waiting":1'
}

# TLS 1.2 and later; a new certificate is taken on SIGHUP, and whoever waits meanwhile is answered.
test_tls() {
    certificate first && serve --tls-key key.pem --tls-cert cert.pem || return 1
    local port=${url##*:} waiting
    status 200 --cacert first.pem "https://localhost:$port/livez" || return 1
    if curl -s --max-time 5 --tls-max 1.1 --cacert first.pem "https://localhost:$port/livez"; then return 1; fi
    curl -s --max-time 20 --cacert first.pem -H "Authorization: Bearer $(cat data/admin.token)" -H 'Content-Type: application/json' \
        -d '{"worker":"w","topics":["t"],"wait":"3s"}' "https://localhost:$port/v1/work" > waited &
    waiting=$!
    for _ in $(seq 100); do polls && break; sleep 0.05; done
    polls || return 1
    certificate second && kill -HUP "$server" || return 1
    for _ in $(seq 100); do grep -q 'read again' err && break; sleep 0.05; done
    status 200 --cacert second.pem "https://localhost:$port/livez" || return 1
    if curl -s --max-time 5 --cacert first.pem "https://localhost:$port/livez"; then return 1; fi
    wait "$waiting" && grep -q '"tasks":\[\]' waited || return 1
    echo broken > cert.pem
    sleep 1.5
    kill -HUP "$server"
    for _ in $(seq 100); do grep -q 'nothing was read' err && break; sleep 0.05; done
    status 200 --cacert second.pem "https://localhost:$port/livez" && stop
}

# With TLS 1.2 only keys that are forgotten: who has the key of the certificate later cannot read what was said.
test_tls_forward_secrecy() {
    certificate first && serve --tls-key key.pem --tls-cert cert.pem || return 1
    local port=${url##*:}
    status 200 --cacert first.pem --tls-max 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256 "https://localhost:$port/livez" || return 1
    if curl -s --max-time 5 --cacert first.pem --tls-max 1.2 --ciphers AES128-GCM-SHA256:AES256-GCM-SHA384 \
        "https://localhost:$port/livez"; then return 1; fi
    stop
}

# A client that does not ask first sees that its body is too large, and how large it may be.
test_too_large() {
    serve && head -c 10000000 /dev/zero > large || return 1
    status 413 -H "Authorization: Bearer $(cat data/admin.token)" -H 'Content-Type: application/json' -H 'Expect:' \
        --data-binary @large "$url/v1/jobs" && grep -q 'the limit is 4194304 bytes' body &&
        status 413 -H "Authorization: Bearer $(cat data/admin.token)" -H 'Content-Type: application/json' \
            --data-binary @large "$url/v1/work" && grep -q 4194304 body && stop
}

# SIGUSR1 writes to the log what the server knows of itself, and nothing else happens.
test_dump() {
    serve || return 1
    status 201 -H "Authorization: Bearer $(cat data/admin.token)" --json '{"topic":"t"}' "$url/v1/jobs" && kill -USR1 "$server" || return 1
    for _ in $(seq 100); do grep -q 'quipu_workers' err && break; sleep 0.05; done
    grep '"msg":"state"' err | grep -q 'quipu_topic_ready{namespace=.*default.*topic=.*} 1"' && ! grep -q _bucket err &&
        status 200 "$url/livez" && stop
}

# With --sandbox, and TLS, and a new certificate.
test_sandbox() {
    certificate first && serve --sandbox --tls-key key.pem --tls-cert cert.pem || return 1
    local port=${url##*:}
    grep -q '^Seccomp:.*2$' "/proc/$server/status" &&
        status 201 --cacert first.pem -H "Authorization: Bearer $(cat data/admin.token)" --json '{"topic":"t"}' "https://localhost:$port/v1/jobs" &&
        certificate second && kill -HUP "$server" || return 1
    for _ in $(seq 100); do grep -q 'read again' err && break; sleep 0.05; done
    status 200 --cacert second.pem "https://localhost:$port/readyz" &&
        status 201 --cacert second.pem -H "Authorization: Bearer $(cat data/admin.token)" --json '{"name":"copy.db"}' "https://localhost:$port/v1/backup" && stop
}

# The manager's socket is served and no other, it hears when we are ready, alive and ending, and a socket that is meant for
# another process is left alone.
test_service_manager() {
    local manager at i
    "$manage" "$quipu" serve --data-dir managed --no-auth > told 2> err &
    manager=$!
    for i in $(seq 200); do
        [ "$(grep -c '^WATCHDOG=1$' told)" -ge 3 ] && break
        sleep 0.05
    done
    at=$(sed -n 's/^socket //p' told)
    status 200 "http://$at/livez" && grep -q "^READY=1$" told && grep -qx "listening on http://$at" told && [ "$i" -lt 200 ] &&
        kill -TERM "$manager" && wait "$manager" && [ "$(tail -n 2 told | xargs)" = "STOPPING=1 exit 0" ] || { cat told err; return 1; }
    LISTEN_PID=1 LISTEN_FDS=1 serve --no-auth && status 200 "$url/livez" && stop
}
test_environment() {
    QUIPU_NO_AUTH=1 serve && status 200 "$url/v1/jobs" && stop
}

# What is secret must not be found in what is kept or said: logs, the store, a backup.
test_no_secret_leaks() {
    rm -rf data
    serve --log-level debug || return 1
    local admin secret canary=canary-5f1c2e
    admin=$(cat data/admin.token)
    status 201 -H "Authorization: Bearer $admin" -H 'Content-Type: application/json' -d '{"role":"worker"}' "$url/v1/tokens" || return 1
    secret=$(jq -r .token body)
    status 401 -H "Authorization: Bearer qp_admin_0000000000000000_$canary" "$url/v1/jobs" &&
        status 400 -H "Authorization: Bearer $admin" -H 'Content-Type: application/json' -d "{\"password\":\"$canary\"" "$url/v1/jobs" &&
        status 403 -H "Authorization: Bearer $secret" "$url/v1/jobs" &&
        status 201 -H "Authorization: Bearer $admin" -H 'Content-Type: application/json' -d '{"name":"copy.db"}' "$url/v1/backup" &&
        status 200 -H "Authorization: Bearer $admin" "$url/metrics" && cp body metrics &&
        status 200 -H "Authorization: Bearer $admin" "$url/v1/audit?store=1" && cp body audit &&
        stop || return 1
    for text in "${admin##*_}" "${secret##*_}" "$canary"; do
        if grep -rqaF -- "$text" out err metrics audit data/quipu.db* data/backups; then
            echo "a secret was found in:" $(grep -rlaF -- "$text" out err metrics audit data/quipu.db* data/backups)
            return 1
        fi
    done
    "$quipu" fsck data/backups/copy.db > /dev/null 2>&1
}

passed=0 failed=0
for name in $(declare -F | sed -n 's/^declare -f \(test_.*\)$/\1/p'); do
    if $name; then
        passed=$((passed + 1))
    else
        echo "FAILED: $name"
        failed=$((failed + 1))
        [ -z "$server" ] || kill -9 "$server" 2> /dev/null
    fi
    rm -rf data
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
