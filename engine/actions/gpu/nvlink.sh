# $1: columns of each GPU; $2: seconds between the two readings of the error counters, of which only links that are up have any.
gpus gpus "$1"
case $rc in 0|6|14|15) ;; *) exit 0 ;; esac
said=$(ask links '' nvlink -s)
printf '%s\n' "$said"
case $said in *'GB/s'*) ;; *) exit 0 ;; esac
ask errors '' nvlink -e
[ "$rc" = 0 ] || exit 0
sleep "$2"
ask again '' nvlink -e
exit 0
