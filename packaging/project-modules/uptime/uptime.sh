#!/bin/sh
# A project module in shell: its input is empty, its answer is one line of JSON.
set -eu
cat > /dev/null
if ! read -r seconds _ < /proc/uptime; then
    echo '{"ok":false,"error":{"code":"NO_UPTIME","message":"This machine does not tell its uptime."}}'
    exit 1
fi
printf '{"ok":true,"module":"%s","method":"%s","data":{"seconds":%s}}\n' "$1" "$2" "${seconds%%.*}"
