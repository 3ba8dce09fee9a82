interval=$1 since=$2  # hundredths of a second, after a time of an earlier answer: then each GPU is probed again
left=$interval
if [ -n "$since" ] && uptime && [ "$up" -ge "$since" ]; then left=$((interval - up + since)); fi  # not started again since
if [ "$left" -gt 0 ]; then sleep "$((left / 100)).$((left / 10 % 10))$((left % 10))"; fi
gpus again index,uuid,utilization.gpu
exit 0
