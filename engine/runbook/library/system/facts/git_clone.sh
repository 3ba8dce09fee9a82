path=$1 repo=$2 ref=$3 ref_kind=$4 wanted=$5 was=$6 seen=$7 work=
git_source "$repo"
safe_beside "$path" || git_refuse
ground=$shared
remove() { [ -z "$work" ] || rm -rf -- "./$work"; }
trap remove EXIT
trap 'exit 12' HUP INT TERM
safe_workshop || fail "$why"
GIT_ALLOW_PROTOCOL=$git_protocols
# shellcheck disable=SC2086 # these are many words
git $git_steady clone -q --no-checkout -o origin -- "$repo" "$work/tree" || exit 12
(
    path=$PWD/$work/tree
    git_enter
    [ "$kind" = tree ] || fail 'the clone is broken'
    if ! g cat-file -e "$wanted^{commit}" 2>/dev/null; then g fetch -q -- "$repo" "$wanted" || exit 12; fi
    if [ "$ref_kind" = branch ]; then
        g checkout -q -B "$ref" "$wanted" || exit 12
        g branch -q --set-upstream-to="origin/$ref" "$ref" 2>/dev/null
    else g checkout -q --detach "$wanted" || exit 12
    fi
) || exit 12
gone() { die 10 "$path has changed since it was inspected: nothing was put there"; }
aside=
case $was in
    absent) [ ! -e "./$name" ] && [ ! -L "./$name" ] || gone ;;
    *)
        safe_stat "./$name" && safe_ours "$uid" && [ ! -L "./$name" ] && [ -d "./$name" ] &&
            [ "$(stat -c '%d:%i' "./$name")" = "$seen" ] || gone
        if [ "$was" = empty ]; then rmdir -- "./$name" 2>/dev/null || gone
        else # what is not in git is nowhere else: it stays, under another name
            aside=$name.replaced-$(date +%Y%m%d-%H%M%S)
            [ ! -e "./$aside" ] && [ ! -L "./$aside" ] || fail "$aside already exists"
            shared=$ground
            safe_put "./$name" "$aside" || fail "$why"
        fi ;;
esac
shared=$ground
if [ ! -e "./$name" ] && [ ! -L "./$name" ] && safe_put "./$work/tree" "$name"; then
    [ -z "$aside" ] || printf 'the previous content was moved to %s\n' "${path%/*}/$aside"
    exit 0
fi
printf '%s\n' "$why" >&2
[ -z "$aside" ] || [ -e "./$name" ] || mv -- "./$aside" "./$name"
exit 12
