# Which of the programs $1 ... are there.
LC_ALL=C PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/usr/local/nvidia/bin; export LC_ALL PATH
for one do
    if command -v -- "$one" >/dev/null 2>&1; then echo there; else echo absent; fi
done
