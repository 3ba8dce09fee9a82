PATH="$PATH:/usr/sbin:/sbin"; LC_ALL=C; export PATH LC_ALL
failed=0
for module; do
    [ -d "/sys/module/$module" ] || modprobe -- "$module" </dev/null || failed=18
done
exit "$failed"
