# Asks py-spy where each process $2... stands, without stopping it; $1 is the time for each, in seconds.
seconds=$1; shift
command -v py-spy >/dev/null || { echo 'no py-spy'; exit 0; }
for pid; do
  printf '\npid %s\n' "$pid" # its output has no newline at its end
  timeout "$seconds" py-spy dump --nonblocking --json --pid "$pid" 2>&1 || echo "failed $?"
done
