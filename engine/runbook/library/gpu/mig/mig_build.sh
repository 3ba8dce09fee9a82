# Divides a GPU: $1 its UUID, $2 the profiles to be made, $3 those that are there (empty: none), $4 whether these have
# compute instances. An instance that is in use is destroyed by nobody: the driver refuses that. Where the new division
# cannot be made, the old one is made again.
LC_ALL=C; export LC_ALL
PATH="$PATH:/usr/bin:/usr/local/nvidia/bin"
mig() { nvidia-smi mig -i "$gpu" "$@" </dev/null; }
gpu=$1
if [ -n "$3" ]; then
    if [ "$4" = yes ]; then mig -dci || { mig -cci >/dev/null 2>&1; exit 11; }; fi
    mig -dgi || { mig -cci >/dev/null 2>&1; exit 12; }
fi
mig -cgi "$2" -C && exit 0
[ -n "$3" ] || exit 13
mig -dci >/dev/null 2>&1
mig -dgi >/dev/null 2>&1
mig -cgi "$3" -C >/dev/null 2>&1 || exit 15
exit 14
