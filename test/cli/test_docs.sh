#!/bin/bash
# test_docs.sh - what stands in a C box of the documentation stands in an example, line by line
set -eu

examples=$(cat examples/*.c)
count=0
for page in docs/*.md; do
    box=
    while IFS= read -r line; do
        case $line in
        '```c') box=on text= ;;
        '```')
            if [ "$box" = on ]; then
                count=$((count + 1))
                if [[ $examples != *"$text"* ]]; then
                    printf '%s: not in any example:\n%s' "$page" "$text"
                    exit 1
                fi
            fi
            box= ;;
        *) [ "$box" != on ] || text+=$line$'\n' ;;
        esac
    done < "$page"
done
[ "$count" -ge 3 ]
