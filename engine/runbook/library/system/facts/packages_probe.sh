has() { command -v "$1" >/dev/null 2>&1; }
if has apt-get && has dpkg-query; then echo manager apt
elif has dnf && has rpm; then echo manager dnf
elif has yum && has rpm; then echo manager yum
elif has apk; then echo manager apk
fi
echo "user $(id -u)"
for one; do has "$one" || printf 'lacks %s\n' "$one"; done
exit 0
