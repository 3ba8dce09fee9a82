# The jobs on the node $1 of Slurm, and their GPUs: lines `KIND REST`: user (job, user), job (job, a line of scontrol),
# failed (words), listed at the end.
LC_ALL=C; export LC_ALL
code=0
rows=$(limited squeue -h -w "$1" -o '%A %u' 2>&1) || code=$?
if [ "$code" != 0 ]; then echo "failed $(failed "$code" squeue "$rows")"; exit 0; fi
rows=$(printf '%s\n' "$rows" | grep '^[0-9][0-9]* ' | sort -u)
printf '%s\n' "$rows" | grep . | lines user
for id in $(printf '%s\n' "$rows" | sed 's/ .*//' | sort -u); do
    code=0
    row=$(limited scontrol -d -o show job "$id" 2>&1) || code=$?
    case $code:$row in
        0:*) printf '%s\n' "$row" | lines "job $id" ;;
        *:*'nvalid job id'*) ;; # it has ended meanwhile
        *) echo "failed $(failed "$code" scontrol "$row")" ;;
    esac
done
echo 'listed yes'
