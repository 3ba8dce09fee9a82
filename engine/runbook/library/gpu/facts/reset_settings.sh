# What a reset of the GPUs $1 takes away, beside their defaults.
ask power uuid,power.limit,power.default_limit -i "$1" --query-gpu=uuid,power.limit,power.default_limit --format=csv,noheader,nounits
clocks=uuid,clocks.applications.memory,clocks.applications.graphics,clocks.default_applications.memory,clocks.default_applications.graphics
ask clocks "$clocks" -i "$1" "--query-gpu=$clocks" --format=csv,noheader,nounits
exit 0
