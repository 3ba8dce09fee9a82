path=$1 ref=$2 ref_kind=$3 seen=$4 wanted=$5 repo=$6
( git_source "$repo" ) || exit
git_enter
[ "$kind" = tree ] || die 10 "$path is no longer a complete work tree"
git_tracked
now=$(g rev-parse -q --verify 'HEAD^{commit}')
[ "$now" = "$seen" ] || die 10 "$path is at another commit than when it was inspected"
changes=$(g status --porcelain --untracked-files=no --ignore-submodules=dirty) ||
    fail "git cannot tell what is changed in $path"
[ -z "$changes" ] || die 10 "$path has been changed since it was inspected"
fetch() { GIT_ALLOW_PROTOCOL=$git_protocols g fetch -q --no-recurse-submodules --no-auto-gc -- "$repo" "$@"; }
case $ref_kind in
    branch) fetch "+refs/heads/$ref:refs/remotes/origin/$ref" || exit ;;
    tag) fetch "refs/tags/$ref:refs/tags/$ref" || exit ;;
    *) g cat-file -e "$wanted^{commit}" 2>/dev/null || fetch '+refs/heads/*:refs/remotes/origin/*' || exit
       g cat-file -e "$wanted^{commit}" 2>/dev/null || fetch "$wanted" || exit ;;
esac
g cat-file -e "$wanted^{commit}" 2>/dev/null || fail "the repository no longer provides $wanted"
git_tracked "$wanted"
if ! g merge-base --is-ancestor HEAD "$wanted" && [ -z "$(g for-each-ref --count=1 --contains HEAD)" ]; then
    fail "the commit that is checked out in $path is on no branch, and would be lost: nothing was checked out"
fi
if [ "$ref_kind" = branch ]; then
    if g rev-parse -q --verify "refs/heads/$ref" >/dev/null; then
        g merge-base --is-ancestor "refs/heads/$ref" "$wanted" ||
            fail "the branch $ref in $path has commits that $wanted lacks: nothing was checked out"
    fi
    g checkout -q --no-overwrite-ignore -B "$ref" "$wanted" || exit
    g branch -q --set-upstream-to="origin/$ref" "$ref" 2>/dev/null
else g checkout -q --no-overwrite-ignore --detach "$wanted" || exit
fi
exit 0
