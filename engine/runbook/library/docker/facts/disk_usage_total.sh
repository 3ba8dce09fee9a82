tries=0
until ask system df -v --format "$1"; do
    case $said in *"already running"*) ;; *) engine_failed ;; esac
    tries=$((tries + 1))
    [ $tries -le 60 ] || engine_failed
    sleep 1
done
