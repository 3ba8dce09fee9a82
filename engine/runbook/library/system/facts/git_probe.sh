path=$1 repo=$2 ref=$3 found='' wanted='' head='' changes='' inode=
git_able
if safe_resolve "$path"; then
    case $kind in
        absent) ;;
        directory)
            safe_enter "$path" || git_refuse
            inode=$(stat -c '%d:%i' .)
            entries=$(ls -A . 2>/dev/null) || fail "$(id -un) cannot access the directory $path"
            if [ -z "$entries" ]; then kind=empty
            elif [ ! -e .git ] && [ ! -L .git ]; then kind=foreign
            else git_enter
            fi ;;
        *) kind=other inode=$(stat -c '%d:%i' "$real") ;;
    esac
else case $why in 'there is no directory '*) kind=absent ;; *) git_refuse ;; esac
fi
if [ "$kind" = tree ]; then
    git_tracked
    if head=$(g rev-parse -q --verify 'HEAD^{commit}' 2>/dev/null) && g cat-file -e 'HEAD^{tree}' 2>/dev/null; then
        changes=$(g status --porcelain --untracked-files=no --ignore-submodules=dirty 2>&1) ||
            case $changes in *" filter '"*) fail "$path: $changes (git's filters are not run)" ;; *) kind=broken ;; esac
    else kind=broken
    fi
fi
stands=$kind
echo "kind $stands"
[ -z "$inode" ] || echo "inode $inode"
if [ "$stands" = tree ]; then
    echo "head $head"
    echo "branch $(g symbolic-ref -q --short HEAD)"
    echo "origin $(g config --get remote.origin.url)"
    [ -z "$changes" ] || printf '%s\n' "$changes" | head -n 100 | sed 's/^/change /'
fi
case $ref in
    *[!0-9a-f]*) ;;
    *) [ ${#ref} -ne 40 ] || found=commit wanted=$ref ;;
esac
if [ -z "$found" ]; then
    said=$(git_source "$repo" && git_refs "$repo" "$ref" 2>&1) || fail "$ref could not be resolved in $repo: $said"
    for kind in "branch refs/heads/$ref" "tag refs/tags/$ref^{}" "tag refs/tags/$ref"; do
        wanted=$(printf '%s\n' "$said" | awk -F '\t' -v name="${kind#* }" '$2 == name { print $1; exit }')
        [ -z "$wanted" ] || { found=${kind%% *}; break; }
    done
fi
echo "wanted $wanted $found"
if [ "$stands" = tree ] && [ -n "$wanted" ] && [ "$wanted" != "$head" ]; then
    if g merge-base --is-ancestor "$wanted" "$head" 2>/dev/null && [ "$found" = branch ]; then echo 'ahead yes'; fi
fi
exit 0
