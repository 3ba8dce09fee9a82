db=$1 table=$2 interval=$3 address=$4
case $db in '~/'*) db=$HOME/${db#??} address=$HOME/${address#??} ;; esac
if [ ! -e "$db" ]; then
    words=$(ls -d -- "$db" 2>&1)
    case $words in *'No such file'*) echo 'problem no database' ;; *) printf 'problem %s\n' "${words##*: }" ;; esac
    exit 0
fi
[ -f "$db" ] || { echo 'problem no file'; exit 0; }
[ -r "$db" ] || { echo 'problem Permission denied'; exit 0; }
# The views of a database are programs to sqlite3, and it makes, locks and believes files beside it (-wal, -shm).
if ! safe_resolve "$db" last || ! safe_directory "$db" || ! safe_step "${real%/*}/" || [ "$shared" = yes ]; then
    printf '%s\n' "${why:-every user can create files next to $db}${owner:+: give the step \`become: $owner\`}" >&2
    exit 3
fi
count() {
    how='mode=ro'
    # A database in WAL mode that nobody has open has no -wal: to open it would make one.
    if [ "$(od -An -tu1 -j18 -N1 "$db" 2>/dev/null | tr -d ' ')" = 2 ]; then
        if [ ! -e "$db-wal" ]; then how='mode=ro&immutable=1'
        elif [ ! -e "$db-shm" ]; then echo 'problem it was left in the middle of a change (-wal, no -shm file)'; exit 0
        fi
    fi
    words=$(printf '.timeout 2000\nPRAGMA trusted_schema=OFF;\nSELECT COUNT(*) FROM %s;\n' "$table" |
        sqlite3 -readonly -batch -bail -init /dev/null "file:$address?$how" 2>&1)
    rc=$?
    [ $rc = 0 ] || { printf 'problem %s\n' "$words" | head -n 1; exit 0; }
    printf 'rows %s\nsize %s\n' "$words" "$(wc -c <"$db" | tr -d ' ')"
}
count
if [ -n "$interval" ]; then sleep "$interval"; count; fi
exit 0
