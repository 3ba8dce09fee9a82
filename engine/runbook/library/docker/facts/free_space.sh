root=$1
said=$(df -Pk -- "$root" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
printf '%s\n' "$said" | tail -n 1
df -Pi -- "$root" 2>/dev/null | tail -n 1
exit 0
