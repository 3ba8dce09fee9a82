interval=$1 since=$2  # hundredths of a second, after a time of an earlier answer: then each GPU is probed again
uptime
gone=$((up - ${since:-$up}))
left=$((interval - gone))
[ "$gone" -ge 0 ] && [ "$left" -le "$interval" ] || left=$interval  # the host was started again
if [ "$left" -gt 0 ]; then sleep "$((left / 100)).$((left / 10 % 10))$((left % 10))"; fi
gpus again index,uuid,utilization.gpu
exit 0
