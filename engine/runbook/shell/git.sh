# Git in a work tree and from a repository of this host, so that it runs nobody's code but git's own (after safe.sh).
#
# git believes what it is given by the configuration, the attributes and the hooks of a repository. So: the tree, its
# repository and every file that the configuration comes from are root's or ours, and nobody else can write to them; a
# place that leads to another repository (gitdir, commondir, alternates) is refused; no hook, no file system monitor and
# no filter runs, nothing is fetched that was not asked for, and no submodule is entered.
#
# What is refused ends the script by `fail`, which a script that changes something redefines.

LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=
GIT_TRACE2=0 GIT_TRACE2_EVENT=0 GIT_TRACE2_PERF=0
export LC_ALL GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_NO_LAZY_FETCH GIT_ALLOW_PROTOCOL
export GIT_TRACE2 GIT_TRACE2_EVENT GIT_TRACE2_PERF
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
unset GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND GIT_CONFIG_PARAMETERS GIT_NAMESPACE
unset GIT_TRACE GIT_TRACE_SETUP GIT_TRACE_PACKET GIT_TRACE_PACKFILE GIT_TRACE_PERFORMANCE GIT_TRACE_CURL
git_asks=no
if [ -z "${GIT_SSH_COMMAND-}" ]; then
    GIT_SSH_COMMAND='ssh -o BatchMode=yes -o ConnectTimeout=10'
    export GIT_SSH_COMMAND
    git_asks=yes
fi
git_steady='-c core.fsmonitor=false -c core.hooksPath=/dev/null -c submodule.recurse=false -c gc.auto=0'
git_steady="$git_steady -c fetch.recurseSubmodules=false -c maintenance.auto=false -c http.saveCookies=false"
git_off='' # switches the filters off, once it is known which there are
# A home of somebody else's (sudo may leave HOME as it was) holds no configuration for us.
if ! safe_resolve "${HOME:-/}" last || [ "$kind" != directory ] || ! safe_step "$real" || [ "$shared" = yes ]; then
    HOME=/nonexistent
    unset XDG_CONFIG_HOME
    export HOME
fi

git_refuse() { # ends the script with what safe.sh found
    fail "$why${owner:+: give the step \`become: $owner\`}"
}

git_told_of() { # `UID NAME` of what others can change, the directory that it is in: the sentence about it
    owner='' why="others can write to ${1#* }: \`chmod -R go-w $2\`"
    safe_ours "${1%% *}" || safe_belongs "${1#* }" "${1%% *}" 'who could exchange what git does there'
    printf '%s\n' "$why${owner:+: give the step \`become: $owner\`}"
}

git_others() { # directory, a path not to enter or '', words of find: UID and NAME of what in it others can change
    git_at=$1 git_not=$2
    shift 2
    find "$git_at" ${git_not:+-path "$git_not" -prune -o} ! -type l "$@" \( \
        ! -user 0 ! -user "$safe_me" ${safe_outside:+! -user "$safe_outside"} -o -perm -0002 -o -perm -0020 \) \
        -exec ls -ldn -- {} + -prune 2>/dev/null |
        awk '{ name = $0; sub(/^([^ ]+ +)([^ ]+ +)([^ ]+ +)([^ ]+ +)([^ ]+ +)([^ ]+ +)([^ ]+ +)([^ ]+ +)/, "", name)
               print $3, name }'
}
git_able() { # whether find, ls and awk of this host can tell that: what lacks an answer is not safe
    [ -n "$(find / -prune ! -type l \( ! -user 987654 -o -perm -0002 \) -perm -0000 -exec ls -ldn -- {} + |
        awk '{ print $3 }')" ] || fail 'find, ls and awk of this host cannot tell who may change what git reads'
}

git_whole() { # directory: refuses it unless all that is in it is ours alone; 1 where it is not a directory; sets real
    if ! safe_resolve "$1" last; then
        case $why in 'there is no directory '* | *' is not a directory') return 1 ;; *) git_refuse ;; esac
    fi
    [ "$kind" = directory ] || return 1
    safe_step "$real" || git_refuse
    git_found=$(git_others "$real" '' | head -n 1)
    [ -z "$git_found" ] || fail "$(git_told_of "$git_found" "$real")"
    git_found=$(find "$real" -type l -exec sh -c 'for link; do
        case $(readlink -- "$link") in /* | .. | ../* | */.. | */../*) printf "%s\n" "$link" ;; esac; done' sh {} + |
        head -n 1)
    [ -z "$git_found" ] || fail "$git_found is a symbolic link that leads elsewhere, which is not followed"
}

git_store() { # directory: refuses a repository unless it is ours alone, and a whole one; sets real
    git_whole "$1" || return 1
    for git_link in commondir objects/info/alternates; do
        [ ! -e "$real/$git_link" ] || fail "$real takes its content from another repository, which is not followed"
    done
}

git_settings() { # words of git: refuses them where the configuration that they read is not ours alone
    "$@" config --list --show-origin --name-only -z >/dev/null || return 1
    git_told=$("$@" config --list --show-origin --name-only -z | tr '\0' '\n' | sed -n 's/^file://p' | sort -u |
        while IFS= read -r git_file; do
            case $git_file in /*) ;; *) git_file=$PWD/$git_file ;; esac
            if safe_resolve "$git_file" last && [ "$kind" = file ] && safe_directory "$git_file" &&
                [ "$shared" = no ]; then continue; fi
            printf '%s\n' "${why:-others can write to $git_file}${owner:+: give the step \`become: $owner\`}"
        done | head -n 1)
    [ -z "$git_told" ] || fail "git takes its configuration from where others can write: $git_told"
}

git_enter() { # goes to $path, where a .git is; sets kind to tree or broken; refuses what is not ours alone
    safe_enter "$path" || git_refuse
    [ "$shared" = no ] || fail "everybody can write to $path"
    safe_stat ./.git || { kind=broken; return; }
    safe_ours "$uid" || { safe_belongs "$path/.git" "$uid" 'who could exchange it meanwhile'; git_refuse; }
    case $mode in d*) ;; *) fail "$path/.git is not a directory: it is not followed to another repository" ;; esac
    git_store "$PWD/.git" || { kind=broken; return; }
    git_dir=$real kind=tree
    git_plain
}

git_plain() { # after git_dir is set: switches filters off; refuses what would fetch, or run, something by itself
    git_off=''
    git_said=$(g rev-parse --git-dir 2>&1) ||
        case $git_said in
            *'not a git repository'* | *'invalid gitfile'*) kind=broken; return ;;
            *) fail "$path: $git_said" ;;
        esac
    git_settings g || fail "$path: git cannot read its configuration"
    [ -z "$(g config --get-regexp '^(remote\..*\.promisor|extensions\.partialclone)$')" ] ||
        fail "$path is a partial clone: to look at it would fetch what it lacks"
    git_filters=$(g config --name-only --get-regexp '^filter\.' | sed 's/^filter\.//; s/\.[^.]*$//' | sort -u)
    case $git_filters in *[!A-Za-z0-9._'
'-]*) fail "git has a filter whose name cannot be switched off" ;; esac
    for git_filter in $git_filters; do
        git_off="$git_off -c filter.$git_filter.clean= -c filter.$git_filter.smudge= -c filter.$git_filter.process="
        git_off="$git_off -c filter.$git_filter.required=true"
    done
}

g() { # git, with the work tree in the current directory and the repository $git_dir
    # shellcheck disable=SC2086 # these are many words
    git $git_steady $git_off --git-dir="$git_dir" --work-tree=. "$@"
}

git_tracked() { # a commit, or nothing: refuses a work tree with files of git's in directories that are not ours alone
    git_told=$(git_others . ./.git -type d | head -n 201)
    [ -n "$git_told" ] || return 0
    git_told=$(printf '%s\n' "$git_told" | while IFS= read -r git_found; do
        git_name=${git_found#* ./} git_seen=$((${git_seen-0} + 1))
        [ "$git_name" != "$git_found" ] || { git_told_of "$git_found" "$path"; break; }
        [ "$git_seen" -le 200 ] || { echo "more than 200 directories below $path can be changed by others"; break; }
        [ -n "$(g ls-files -- ":(literal)$git_name" | head -n 1)" ] ||
            { [ -n "${1-}" ] && g cat-file -e "$1:$git_name" 2>/dev/null; } || continue
        git_told_of "${git_found%% *} $path/$git_name" "$path"
        break
    done)
    [ -z "$git_told" ] || fail "$git_told"
}

git_source() { # the address of a repository: refuses one on this host that is not ours alone; goes to /
    cd / || fail 'the directory / may not be entered'
    git_settings git || fail 'git cannot read its configuration'
    case $1 in file://*) git_place=${1#file://} ;; /*) git_place=$1 ;; *) return 0 ;; esac
    case $git_place in /*) ;; *) fail "$1 is not an address of a repository" ;; esac
    for git_try in "$git_place/.git" "$git_place" "$git_place.git"; do
        [ -e "$git_try" ] || [ -L "$git_try" ] || continue
        [ ! -f "$git_try" ] || fail "$git_try is a file: bundles and linked work trees are not followed"
        git_store "$git_try" || fail "$git_try is no repository"
        return 0
    done
}

git_refs() { # address of a repository, ref: the commits that it has for it, as git ls-remote says; changes nothing here
    git_repo=$1 git_ref=$2
    # To let ssh add to known_hosts or open a shared connection, or a helper store what it just received, leaves traces.
    [ "$git_asks" = no ] || GIT_SSH_COMMAND="$GIT_SSH_COMMAND -o ControlMaster=no -o ControlPath=none \
-o StrictHostKeyChecking=yes -o IgnoreUnknown=UpdateHostKeys -o UpdateHostKeys=no"
    git config --get-regexp '^credential\.(.*\.)?helper$' | {
        set -- -c credential.helper=
        while IFS=' ' read -r git_key git_helper; do
            case $git_helper in
                '') set -- "$@" -c "$git_key="; continue ;;
                '!'*) git_helper="${git_helper#!} get" ;;
                /*) git_helper="$git_helper get" ;;
                *) git_helper="git credential-$git_helper get" ;;
            esac
            set -- "$@" -c "$git_key=!runbook_get() { [ \"\$1\" != get ] || { $git_helper; }; }; runbook_get"
        done
        # shellcheck disable=SC2086 # these are many words
        GIT_ALLOW_PROTOCOL=$git_protocols git $git_steady "$@" ls-remote -q -- "$git_repo" \
            "refs/heads/$git_ref" "refs/tags/$git_ref" "refs/tags/$git_ref^{}" </dev/null
    }
}
git_protocols=file:git:http:https:ssh
