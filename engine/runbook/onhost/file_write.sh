LC_ALL=C; export LC_ALL
umask 022
what=$1 path=$2 was=$3 seen=$4 new=$5 bits=$6 by=$7 group=$8; shift 8
parents=$1 backup=$2 work=''
not() { die 12 "$path: nothing was written: $*"; }
trap '[ -z "$work" ] || rm -rf -- "./$work"' EXIT
trap 'exit 12' HUP INT TERM
sum() { all=$(sha256sum <"$1") && printf %s "${all%% *}"; }
unchanged() {
    if [ -L "./$name" ]; then now='link'; elif [ -f "./$name" ]; then now='file'; elif [ -d "./$name" ]; then now='directory'
    elif [ -e "./$name" ]; then now='other'; else now='absent'; fi
    case $now:$new in file:?*) id=$(sum "./$name") ;; absent:*) id= ;; *) id=$(stat -c '%d:%i' "./$name") ;; esac
    [ "$now" = "$was" ] && [ "$id" = "$seen" ] ||
        die 10 "$path has changed since it was inspected: nothing was written"
}
own() {  # of what is nobody else's to exchange, the owner first, for a change of owner takes setuid bits away
    [ -z "$by$group" ] || why=$(chown "$by${group:+:$group}" "$1" 2>&1) || not "$why"
    [ -z "$bits" ] || why=$(chmod "$bits" "$1" 2>&1) || not "$why"
    [ -d "$1" ] || return 0
    off=  # chmod of GNU takes these from a directory only by name
    case $bits in [01]???) off=u-s,g-s ;; [23]???) off=u-s ;; [45]???) off=g-s ;; esac
    [ -z "$off" ] || why=$(chmod "$off" "$1" 2>&1) || not "$why"
}
put() {  # what is ready, unless something has come meanwhile
    unchanged
    safe_put "$1" "$name" || not "$why"
    sync . 2>/dev/null
    exit 0
}
case $parents in
    yes)
        dir=${path%/*}; [ -n "$dir" ] || dir=/
        safe_make_all "$dir" || not "$why${owner:+ (become: $owner)}"
        ;;
esac
safe_beside "$path" || not "$why${owner:+ (become: $owner)}"
unchanged
if [ "$was" = directory ]; then  # from within, so that nobody can put another one in its place once it is theirs
    cd -P -- "./$name" && [ "$(stat -c '%d:%i' .)" = "$seen" ] || not 'the directory cannot be entered, or was exchanged'
    own .
    exit 0
fi
if [ "$was" = file ] && [ -z "$new" ]; then
    if [ "$shared" = no ]; then own "./$name"; exit 0; fi
    exec 9<"./$name"  # held, for its new owner may put another in its place
    own /proc/self/fd/9
    exit 0
fi
safe_tidy
safe_workshop || not "$why"
tmp=./$work/new
if [ "$what" = directory ]; then
    why=$(mkdir -m 700 "$tmp" 2>&1) || not "$why"
    bits=${bits:-755}
    own "$tmp"
    put "$tmp"
fi
if [ -n "${verb-}" ] && [ "$was" = file ]; then  # a restored file keeps its ACL
    cp --preserve=all -- "./$name" "$tmp" 2>/dev/null && chmod u+w "$tmp"
fi
why=$(umask 077 && cat 2>&1 >"$tmp") || not "${why:-there is no room for it}"
[ -z "$new" ] || [ "$(sum "$tmp")" = "$new" ] || not "the content arrived incomplete"
if [ "$was" = file ]; then
    why=$(chown "$(stat -c %u:%g "./$name")" "$tmp" 2>&1) || not "$why"
    bits=${bits:-$(stat -c %a "./$name")}
    if command -v chcon >/dev/null 2>&1; then chcon --reference="./$name" "$tmp" 2>/dev/null; fi
fi
bits=${bits:-644}
own "$tmp"  # nobody else can reach it in there
if [ "$backup" = yes ] && [ "$was" = file ]; then
    place=$name.backup-$(date +%Y%m%d-%H%M%S) number=1 free=
    while [ -e "./$place$free" ] || [ -L "./$place$free" ]; do number=$((number + 1)); free=-$number; done
    why=$(cp -p "./$name" "./$work/old" 2>&1) && safe_put "./$work/old" "$place$free" || not "no backup: $why"
    printf 'the old file was kept as %s\n' "${path%/*}/$place$free"
fi
sync "$tmp" 2>/dev/null
put "$tmp"
