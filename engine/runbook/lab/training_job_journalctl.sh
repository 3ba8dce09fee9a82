#!/bin/sh
# As on a host that keeps no journal, or with what /run/lab/journal has (one line a message: time, host, who, text).
since=0 boot='' unit=''
while [ $# -gt 0 ]; do
  case $1 in
    -b | -k) boot=1 ;;
    --since) shift; since=${1#@} ;;
    -u | --unit) unit=$2 ;;
  esac
  shift
done
if [ -e /run/lab/journal ] && [ -z "$unit" ]; then
  exec awk -v since="$since" -v boot="$boot" '$1 < since { next }
    boot && / kernel: Linux version / { n = 0 }
    { kept[n++] = $0 }
    END { for (i = 0; i < n; i++) print kept[i] }' /run/lab/journal
fi
echo 'No journal files were found.' >&2
echo '-- No entries --'
