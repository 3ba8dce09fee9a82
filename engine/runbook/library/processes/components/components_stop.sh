place "$1"; grace=$3
[ -d "$folder" ] || die 12 "there is no folder $folder any more"
take_turn "$2" yes; shift 3
code=0
for one; do
    IFS=' '
    set -f
    set -- $one
    unset IFS
    set +f
    end_one "$@" || code=1
done
exit $code
