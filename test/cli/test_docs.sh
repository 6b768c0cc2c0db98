#!/bin/bash
# test_docs.sh - what the documentation shows is so: commands run and print what stands there, C boxes stand in an example
#
# A console box has commands, after "$ ", and what they print; "..." stands for any text, alone on a line for any lines. The boxes of a page
# are run in one directory, which has the examples, one after the other. A command that ends in & goes on meanwhile. Of a bash box that begins with
# "# NAME.sh - ", after the line of its interpreter, the file NAME.sh is made; likewise NAME.yaml, and NAME.js of "/* NAME.js - ". The ports of the server are such that the system chooses, so that pages can be
# tested side by side.
set -u
. test/cli/lib.sh
examples=$(cat examples/*.c)
PATH=$(dirname "$quipu"):$build/examples:$PATH

# boxes KIND PAGE: the lines of all boxes of this kind, each box ended by a line "```"
boxes() {
    awk -v kind="$1" '$0 == "```" kind { on = 1; next } /^```$/ { if (on) print; on = 0 } on' "$2"
}

# The files that a page shows.
make_files() {
    local name
    for name in $(awk '
        /^```(yaml|bash|js)$/ { on = 1; lines = 0; text = name = ""; next }
        /^```$/ { if (on && name != "") { printf "%s", text > name; close(name); print name } on = 0 }
        on { text = text $0 "\n" }
        on && ++lines <= 2 && /^(#|\/\*) [a-z-]+\.(yaml|sh|js) - / { name = $2 }' "$1"); do
        [[ $name != *.sh ]] || { chmod +x "$name" && bash -n "$name"; } || return 1
    done
}

# in_background COMMAND: runs it; of a server, waits until it listens
in_background() {
    : > background.out
    eval "exec ${1//--agent-port 4001/--agent-port 0}" > background.out 2> background.err &
    servers+=("$!")
    case $1 in
    *serve*)
        for _ in $(seq 100); do grep -q '^listening on unix' background.out && break; sleep 0.05; done
        sleep 0.1
        url=$(sed -n 's|^listening on http://||p' background.out)
        agents=$(sed -n 's|^serving agents on http://||p' background.out)
        [ -z "$agents" ] || export AGENT_URL=http://$agents
        sed "s|$url|127.0.0.1:7700|; s|${agents:-none}|127.0.0.1:4001|" background.out > actual ;;
    *) : > actual ;;
    esac
}

# same EXPECTED ACTUAL: line by line, where "..." stands for anything
same() {
    awk '
        function quote(text) { gsub(/[][\\.^$*+?(){}|]/, "\\\\&", text); return text }
        function pattern(text,    parts, n, i, out) {
            n = split(text, parts, /\.\.\./); out = quote(parts[1])
            for (i = 2; i <= n; i++) out = out ".*" quote(parts[i])
            return "^" out "$"
        }
        NR == FNR { want[++wants] = $0; next }
        { line[++lines] = $0 }
        END {
            i = 1
            for (w = 1; w <= wants; w++) {
                if (want[w] == "...") { any = 1; continue }
                while (any && i <= lines && line[i] !~ pattern(want[w])) i++
                if (i > lines || line[i] !~ pattern(want[w])) { print "no line: " want[w]; exit 1 }
                i++; any = 0
            }
            if (!any && i <= lines) { print "one line more: " line[i]; exit 1 }
        }' "$1" "$2" || { echo "it printed:"; cat "$2"; return 1; }
}

# check_last PAGE COMMAND: what the last command has printed is what the page says
check_last() {
    [ -z "$2" ] || same expected actual || { echo "$1: $2"; return 1; }
}

run_page() {
    local page=$1 line command=
    make_files "$page" || return 1
    : > expected
    while IFS= read -r line; do
        case $line in
        '$ '* | '```')
            check_last "$page" "$command" || return 1
            command=${line#\$ } && : > expected
            [ "$line" != '```' ] || { command=; continue; }
            count=$((count + 1))
            if [[ $command == *' &' ]]; then
                in_background "${command% &}"
            else
                command=${command//127.0.0.1:7700/${url:-}}
                eval "${command//127.0.0.1:4001/${agents:-}}" > actual 2>&1 < /dev/null || { echo "$page: $command: exit $?"; cat actual; return 1; }
            fi ;;
        *) printf '%s\n' "$line" >> expected ;;
        esac
    done < <(boxes console "$page")
}

test_console_boxes() {
    local page pages=0 count=0
    export QUIPU_LISTEN=127.0.0.1:0
    for page in "$root"/README.md "$root"/docs/*.md; do
        mkdir "p$((++pages))" && cd "p$pages" || return 1
        ln -s "$root/examples" examples && "$build/examples/hello" orders.db > /dev/null && run_page "$page" || return 1
        end_servers
        unset QUIPU_URL QUIPU_TOKEN # what a page exports is its own
        cd ..
    done
    unset QUIPU_LISTEN
    [ "$count" -ge 30 ] || { echo "only $count commands"; return 1; }
}

# A command that is shown as one has to be in a box that is run. The manual of the commands has its examples tested by test_table.sh.
test_no_command_outside_of_a_box() {
    ! grep -nE '^    (\$ |curl )' "$root"/README.md "$root"/docs/*.md
}

test_c_boxes() {
    local page text='' count=0 line
    for page in "$root"/docs/*.md; do
        while IFS= read -r line; do
            if [ "$line" != '```' ]; then
                text+=$line$'\n'
                continue
            fi
            count=$((count + 1))
            [[ $examples == *"$text"* ]] || { printf '%s: not in any example:\n%s' "$page" "$text"; return 1; }
            text=
        done < <(boxes c "$page")
    done
    [ "$count" -ge 3 ]
}

run_tests
