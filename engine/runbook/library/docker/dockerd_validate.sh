LC_ALL=C PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin; export LC_ALL PATH
command -v dockerd >/dev/null || { cat >/dev/null; echo absent; exit 0; }
dockerd --help </dev/null 2>&1 | grep -q -e --validate || { cat >/dev/null; echo old; exit 0; }
said=$(dockerd --validate --config-file /dev/stdin 2>&1)  # one without --validate would start
printf 'asked %s\n%s\n' "$?" "$said"
exit 0
