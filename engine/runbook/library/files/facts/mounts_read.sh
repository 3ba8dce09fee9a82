# The table of mounts, with the options of each file system cut short: those of an overlay may be very long.
# Parameter: self, or the pid of a process whose mounts are meant.
LC_ALL=C; export LC_ALL
awk '{
    end = length($0); long = NF
    for (at = 7; at <= NF; at++) if ($at == "-") break
    if (at + 3 <= NF) { cut = length($(at + 3)) - 600; if (cut > 0) $0 = substr($0, 1, end - cut) }
    print
}' "/proc/$1/mountinfo"
