IFS= read -r nonce </proc/sys/kernel/random/uuid || { echo '/proc/sys/kernel/random/uuid cannot be read' >&2; exit 3; }
xargs=$(command -v xargs) && head=$(command -v head) || { echo 'xargs or head was not found' >&2; exit 3; }
command -v timeout >/dev/null 2>&1 && limit='timeout 8' || limit=
fence='read -r n; export n; exec env -u _ -u PWD -u OLDPWD -u SHLVL -u PATH "$@"'
pids_of() {  # few or crowd: the pids of users with few processes, or with many
    printf '%s\n' "$rows" | awk -v wanted="$1" -v own="$uid" '
        $1 == "p" { at[++n] = $2; of[n] = $9; many[$9]++ }
        END {
            for (i = 1; i <= n; i++) {
                big = many[of[i]] > @CROWD@ && of[i] != 0 && of[i] != own
                if (big == (wanted == "crowd")) print at[i]
            }
        }'
}
arguments() {  # bytes, pids: that much of the arguments of each; fd 3 gets the pids that it did not come to
    [ -n "$2" ] || return 0
    {
        printf '%s\n' "$nonce" $2 -
        { printf '%s\n' "$nonce"; printf '/proc/%s/cmdline\n/proc/self/environ\n' $2; } |
            $limit env -i PATH="$PATH" sh -c "$fence" sh "$xargs" -n 1000 "$head" -q -c $(($1 + 1)) 2>/dev/null |
            tr '\n\0' '\001\n'
    } | awk -v share="$1" '
        function one() {
            bytes += length(text) + 1
            if (bytes > share + 1) text = substr(text, 1, length(text) - 1)
            if (text != "") print "a " turn[now] " " text
        }
        NR == 1 { nonce = "n=" $0; fence = length(nonce); next }
        !reads { if ($0 == "-") { reads = 1; now = 1 } else turn[++count] = $0; next }
        substr($0, length($0) - fence + 1) == nonce {
            text = substr($0, 1, length($0) - fence)
            if (text != "") one()
            if (bytes > share) print "c " turn[now]
            bytes = 0; now++; next
        }
        { text = $0; one() }
        END { while (now <= count) print turn[now++] | "cat >&3" }
    '
}
hanging() {  # pids: those whose arguments cannot be read: something in the kernel holds their memory
    n=0
    for pid; do
        {
            timeout 2 cat "/proc/$pid/cmdline" >/dev/null 2>&1
            case $? in 124|137|143) echo "$pid" ;; esac
        } &
        n=$((n + 1)); [ $((n % 50)) -ne 0 ] || wait
    done
    wait
}
shown=$({
    late=$({ arguments @SHARE@ "$(pids_of few)"; arguments @CROWDED@ "$(pids_of crowd)"; } 3>&1 >&4)
    if [ -n "$late" ]; then
        stuck=$(hanging $late)
        rest=$(printf '%s\n' $stuck - $late | awk '!past { if ($0 == "-") past = 1; else out[$0]; next } !($0 in out)')
        again=$(arguments @CROWDED@ "$rest" 3>&1 >&4)
        echo "stuck" $stuck $again >&4
    fi
} 4>&1 | { printf '%s\n' "$rows"; cat; } | awk -v own="$uid" -v budget=@BUDGET@ -v ours=@OURS@ -v names='@NAMES@' '
    function owner(uid,    i) {  # a user may act under any uid of those that /etc/subuid gives him
        for (i = 1; i <= ranges; i++) if (uid >= first[i] && uid < first[i] + long[i]) return whose[i]
        return (uid in called) ? called[uid] : uid
    }
    function claims(text,    i) {  # whether it is the name of a protected program
        if (text in exact) return 1
        for (i = 1; i <= starts; i++) if (index(text, start[i]) == 1) return 1
        return 0
    }
    BEGIN {
        n = split(names, w, " ")
        for (i = 1; i <= n; i++)
            if (w[i] ~ /\*$/) start[++starts] = substr(w[i], 1, length(w[i]) < 17 ? length(w[i]) - 1 : 15)
            else { exact[w[i]]; exact[substr(w[i], 1, 15)] }
        while ((getline l < "/etc/subuid") > 0) {
            split(l, w, ":"); whose[++ranges] = w[1]; first[ranges] = w[2] + 0; long[ranges] = w[3] + 0
        }
    }
    $1 == "p" {
        row[++rows] = $0; pid[rows] = $2; uid[$2] = $9
        name = $0; for (i = 1; i < 11; i++) name = substr(name, index(name, " ") + 1)
        if (claims(name)) claimed[$2]
        next
    }
    $1 == "u" { called[$2] = $3; print; next }
    $1 == "stuck" { print "a " $0; next }
    $1 == "c" { cut[$2]; next }
    $1 == "a" {
        if (!($2 in of)) {
            of[$2] = who = owner(uid[$2])
            text = $3; sub(/:+$/, "", text); sub(/.*\//, "", text); sub(/^-+/, "", text)
            if (claims(text)) claimed[$2]
        } else who = of[$2]
        held[who] += length($0) + 1
        if (held[who] > (uid[$2] == own ? ours : budget)) cut[$2]
        else if ($2 in words) words[$2] = words[$2] "\n" $0
        else words[$2] = $0
    }
    END {
        for (i = 1; i <= rows; i++) {  # how much each user says
            p = pid[i]; if (!(p in of)) of[p] = owner(uid[p])
            if (uid[p] != own) says[of[p]] += length(row[i]) + length(words[p]) + 2
        }
        most = budget
        for (turn = 0; turn < 60; turn++) {  # the most that each may say, so that all of it fits
            sum = 0
            for (who in says) sum += says[who] < most ? says[who] : most
            if (sum <= budget) break
            most *= 0.8
        }
        for (i = 1; i <= rows; i++) {
            p = pid[i]; who = uid[p] == own ? "own" : of[p]; shown[who] += length(row[i]) + 1
            if (shown[who] > most && uid[p] != own) { left[who]++; gone[p]; continue }
            print row[i]
            if (uid[p] == 0 || uid[p] == own || !(p in claimed)) continue
            if (asked[who]++ < 64) print "want " p
        }
        for (i = 1; i <= rows; i++) {
            p = pid[i]; who = uid[p] == own ? "own" : of[p]
            if (p in gone) continue
            if (p in words) {
                shown[who] += length(words[p]) + 1
                if (shown[who] > (uid[p] == own ? ours : most)) cut[p]; else print words[p]
            }
            if (p in cut) print "cut " p
        }
        for (who in left) print "left " left[who] " " who
    }
')
printf '%s\n' "$shown" | grep -v '^want '
