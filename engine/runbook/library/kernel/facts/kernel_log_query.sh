LC_ALL=C; export LC_ALL
worth=$1 since=$2 kept=$3
now=$(date +%s)
printf 'clock %s %s %s\n' "$now" "$(awk '$1 == "btime" { print $2 }' /proc/stat 2>/dev/null || echo -)" "$(date +%z)"
taint=; { IFS= read -r taint </proc/sys/kernel/tainted; } 2>/dev/null; printf 'taint %s\n' "$taint"
case $since in
    ago*) from=$((now - ${since#ago })) ;;
    at*) from=${since#at } ;;
    *) from= ;;
esac
show() {  # stdin: a log and, as its last line, how the program that wrote it ended; $1: what a line begins with
    awk 'BEGIN { worth = ARGV[1]; kept = ARGV[2]; begins = ARGV[3]; ARGC = 1 }
        held { line(last) }
        { last = substr($0, 1, 1000); held = 1 }
        function line(it,    stamp, text, bad) {
            if (it ~ /^-- / || it !~ begins && !(drivers && it ~ /^ +NVRM/)) { if (note == "") note = it; return }
            if (match(it, /^(kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]) *: *[a-z]+ *: */)) { # dmesg -x; a program that writes to /dev/kmsg has another facility
                text = substr(it, RLENGTH + 1)
                if (it !~ /^kern/ && text !~ /^\[ *[0-9]+[.][0-9]+\] (runbook|systemd-journald)/) return
                bad = it ~ /^kern *: *(emerg|alert|crit|err) *:/
                it = text
            }
            if (bad) errors[bads++ % 50] = it
            text = it
            sub(/^[0-9]+[.][0-9]+ [^ ]+ kernel: /, "", text) # the journal
            if (match(it, /^([^[]* kernel: )?\[ *[0-9]+[.][0-9]+\]/)) {
                stamp = substr(it, 1, RLENGTH); text = substr(it, RLENGTH + 1); stamped = 1
            }
            sub(/^(\[[^]]*\])? */, "", text)
            if (stamp == "" && stamped && begins == "") { if (!drivers) return }
            else if (stamp != "" && stamp == before && carries) return
            else {
                before = stamp
                faulted = text ~ /\[[0-9]+\]:? .* in /
                drivers = text ~ /^NVRM/ && !faulted
                carries = faulted || text ~ /^overlayfs/ || !drivers && text ~ /[\042\047\140]/
            }
            total++
            if (total == 1) first = it
            final = it
            if (worth == "" || tolower(it) ~ worth) chosen[n++ % kept] = it
        }
        END {
            print "end " last
            if (note != "") print "note " note
            if (!total) exit
            print "lines " total
            print "first " first
            print "last " final
            if (n > kept) print "dropped " n - kept
            for (i = bads > 50 ? bads - 50 : 0; i < bads; i++) print "error " errors[i % 50]
            for (i = n > kept ? n - kept : 0; i < n; i++) print " " chosen[i % kept]
        }' "$worth" "$kept" "$1"
}
if command -v journalctl >/dev/null 2>&1; then
    echo 'source journal'
    # the kernel's own messages, what the journal says of itself (that it missed some), and kills by systemd-oomd: no
    # program can forge a field that begins with an underscore
    whose='_TRANSPORT=kernel SYSLOG_IDENTIFIER=kernel + _TRANSPORT=kernel SYSLOG_IDENTIFIER=runbook + _TRANSPORT=driver
        + _SYSTEMD_UNIT=systemd-oomd.service + _SYSTEMD_UNIT=earlyoom.service'
    if [ -n "$from" ]; then
        journalctl _TRANSPORT=kernel -o short-unix --no-pager 2>/dev/null |
            head -n 2 | sed -n '/^[0-9]/{s/^/start /p;q;}'
        { journalctl $whose -o short-unix --no-pager --since "@$from" 2>&1; echo "$?"; } | show '^[0-9]+[.]'
    else
        { journalctl -b $whose -o short-unix --no-pager 2>&1; echo "$?"; } | show '^[0-9]+[.]'
    fi
fi
echo 'source dmesg'
facility=-x
dmesg -x >/dev/null 2>&1 || facility=
if command -v dmesg >/dev/null 2>&1; then { dmesg $facility 2>&1; echo "$?"; } | show ''; else echo 'end 127'; fi
dmesg >/dev/null 2>&1 && exit 0
file=/var/log/kern.log
[ -e "$file" ] || exit 0
echo "source $file"
if [ ! -r "$file" ]; then echo 'end 13'; exit 0; fi
{ tail -c 4194304 "$file" | grep -aE '^([A-Z][a-z][a-z] [ 0-9][0-9] [0-9:]{8}|[0-9T:.+Z-]+) [^ ]+ kernel: '; echo 0; } |
    show ' kernel: '
exit 0
