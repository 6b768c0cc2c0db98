#!/bin/bash
# charge.sh - a worker for card.charge: refuses amounts over 100
amount=$(sed -nE 's/.*"amount":([0-9]+).*/\1/p')
if [ "${amount:-0}" -gt 100 ]; then
    echo "the card is good for 100" >&2
    exit 1
fi
printf '{"charged":%d}\n' "${amount:-0}"
