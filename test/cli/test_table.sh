#!/bin/bash
# test_table.sh - the table of commands: help, arguments, completion and the manual say and do the same for every command
set -u
. test/cli/lib.sh

# The words of every command, one a line.
commands() {
    "$quipu" help | sed -n '/^commands:/,/^$/p' | sed -nE 's/^  (([a-z]+ ?)+[a-z]+)  .*/\1/p'
}

# options_of COMMAND: all its options, those that take a value with one, but for --help
options_of() {
    "$quipu" help $1 | sed -n '/^options:/,$p' | sed -nE 's/^ +(-., )?(--[a-z-]+)( [^ ]+)?.*/\2\3/p' |
        grep -v '^--help' | sed 's/ .*/=x/'
}

test_every_command_has_help() {
    [ "$(commands | wc -l)" -ge 35 ] || { commands; return 1; }
    while read -r command; do
        expect 0 "^usage: quipu $command" '' help $command &&
            expect 0 "^usage: quipu $command" '' $command --help &&
            expect 0 "^usage: quipu $command" '' $command -h || return 1
    done < <(commands)
}

test_every_command_refuses_what_it_does_not_know() {
    while read -r command; do
        expect 2 '' "$command: unknown option '--no-such-thing'.*see quipu" $command --no-such-thing || return 1
    done < <(commands | grep -v help)
}

# An option that is not known is answered in these words; here only the last one is.
test_every_option_is_taken() {
    while read -r command; do
        expect 2 '' "unknown option '--no-such-thing'" $command $(options_of "$command") --no-such-thing || return 1
    done < <(commands | grep -v help)
    [ "$(options_of serve | wc -l)" = 27 ]
}

test_nearest() {
    expect 2 '' "unknown option '--were' \(nearest: --where\); see quipu help ls" ls --were x &&
        expect 2 '' '--limit is given twice' ls --limit 1 --limit 2 &&
        expect 2 '' '--where needs a value' ls --where &&
        expect 2 '' '--all=1 takes no value' ls --all=1 &&
        expect 2 '' "unexpected argument 'extra'" ls extra &&
        expect 2 '' "--db and --server: one of them" ls --db a --server b &&
        expect 3 '' 'there is no such store; next: quipu serve' ls --db=missing.db &&
        expect 2 '' "a server is http" ls --server ftp://x &&
        expect 2 '' "a server is http" ls --server http://user:pass@host/path &&
        expect 2 '' 'more than 32 times' start t $(printf -- '--attr a=b %.0s' $(seq 33)) --db x.db &&
        [ ! -e x.db ] && [ ! -e missing.db ]
}

test_examples_are_understood() {
    serve || return 1
    export QUIPU_SERVER=unix:data/quipu.sock
    printf '{}' > input.json
    cp "$root/test/graph/good/chain.yaml" orders.yaml
    printf '#!/bin/sh\ncat\n' > greet.sh
    chmod +x greet.sh
    printf 'Package: %s\nVersion: 1\nArchitecture: amd64\nDepends: libc6\n\n' curl libc6 > Packages
    for id in order-7 order-8; do "$quipu" start order --id $id > /dev/null || return 1; done
    "$quipu" start greet --db quipu.db > /dev/null || return 1
    PATH=$(dirname "$quipu"):$PATH
    local line status count=0
    while read -r line; do
        case $line in
        *serve* | *dev* | *demo* | *'> orders.yaml'* | *migrate* | *watch* | *wait* | *--follow* | *'~'*) continue ;;
        esac
        (eval "$line") > "$TMPDIR/out" 2> "$TMPDIR/err" < /dev/null
        status=$?
        [ "$status" -ne 2 ] && [ "$status" -ne 1 ] && [ "$status" -lt 126 ] || { echo "$line: $status"; cat "$TMPDIR/err"; return 1; }
        count=$((count + 1))
    done < <("$quipu" help -o markdown | sed -n 's/^    //p')
    unset QUIPU_SERVER
    [ "$count" -ge 30 ] || { echo "only $count examples"; return 1; }
}

# reply WORD...: what bash would offer for this line
reply() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _quipu
    echo "${COMPREPLY[*]}"
}

test_completion() {
    "$quipu" completion bash > q.bash && bash -n q.bash && . ./q.bash &&
        [ "$(reply quipu star)" = start ] && [ "$(reply quipu tokens c)" = create ] &&
        [ "$(reply quipu ls --whe)" = --where ] && [ "$(reply quipu tokens create --ro)" = --role ] &&
        [ "$(reply quipu show --whe)" = "" ] &&
        [ "$(reply quipu '' | wc -w)" -ge 32 ] || return 1
    "$quipu" completion zsh | bash -n && "$quipu" completion zsh | head -1 | grep -qx '#compdef quipu' &&
        "$quipu" completion fish | grep -q "^complete -c quipu -n '__fish_seen_subcommand_from ls' -l where -r\$" &&
        expect 2 '' 'the shell is bash, zsh or fish' completion tcsh &&
        expect 2 '' 'bash|zsh|fish is missing' completion
}

test_manual() {
    expect 0 '^\.TH QUIPU 1' '' help -o man || return 1
    while read -r command; do
        grep -q "^\.SS quipu $command" "$TMPDIR/out" || { echo "no $command"; return 1; }
    done < <(commands)
    for code in 0 1 2 3 4 5 6 7 10 11 12 13 130; do
        grep -qx "\.B $code" "$TMPDIR/out" || { echo "no exit code $code"; return 1; }
    done
    expect 2 '' 'output must be text, man or markdown' help -o pdf &&
        diff <("$quipu" help -o markdown) "$root/docs/cli.md"
}

# What tables print are fields of the API; but for those of config.c, which asks nobody.
test_columns_are_fields() {
    local key count=0
    for key in $(grep -ohE '\{"[A-Z ]+", "[a-z_]+"' $(ls "$root"/src/cli/*.c | grep -v /config.c) | sed -E 's/.*"([a-z_]+)"/\1/' | sort -u); do
        grep -q "^FIELD([A-Za-z]*, $key," "$root/src/server/schemas.def" || { echo "no field $key"; return 1; }
        count=$((count + 1))
    done
    [ "$count" -ge 20 ]
}

run_tests
