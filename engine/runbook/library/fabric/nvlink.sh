# $1: columns of each GPU; $2: seconds between the two readings of the error counters, of which only links that are up have any.
gpus gpus "$1"
usable || exit 0
said=$(ask links '' nvlink -s)
printf '%s\n' "$said"
case $said in *'GB/s'*) ;; *) exit 0 ;; esac
ask errors '' nvlink -e
usable || exit 0
sleep "$2"
ask again '' nvlink -e
exit 0
