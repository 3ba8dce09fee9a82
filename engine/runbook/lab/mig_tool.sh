# Sourced by the pretended nvidia-smi for `nvidia-smi mig ...`: instances of GPU 0, where it is in MIG mode. A line of
# $table for each: its number, profile, number of the profile, first slice, slices, and 1 where it has a compute instance.
table=$state/mig.0 gpu='' verb='' list='' one='' compute=''
# shellcheck disable=SC2154  # $state, has, uuid, number, holders are those of nvidia-smi
while [ $# -gt 0 ]; do
  case $1 in
    -i) shift; gpu=$(number "$1") || { echo 'No devices were found'; exit 6; };;
    -lgi|-lci|-lgip|-lgipp|-dci|-dgi|-cci) verb=$1;; -cgi) verb=$1; shift; list=$1;; -C) compute=1;;
    -gi) shift; one=$1;; *) ;;
  esac
  shift
done
if ! has mig || [ "$gpu" = 1 ]; then echo 'No MIG-enabled devices found.'; exit 6; fi
case $verb in -l*) ;; *)
  echo "mig $verb $list" >>"$state/calls"
  [ "$(id -u)" = 0 ] || { echo 'Insufficient Permissions'; exit 4; };;
esac
[ -e "$table" ] || : >"$table"
offers() { echo '1g.10gb 19 7 1 0,1,2,3,4,5,6
1g.20gb 15 4 2 0,2,4,6
2g.20gb 14 3 2 0,2,4
3g.40gb 9 2 4 0,4
4g.40gb 5 1 4 0
7g.80gb 0 1 8 0'; }
free() { # first slice, slices: whether nothing is there
  while read -r _ _ _ from size _; do
    if [ "$1" -lt $((from + size)) ] && [ "$from" -lt $(($1 + $2)) ]; then return 1; fi
  done <"$table"
}
line='+-----------------------------------------------------------------------------+'
case $verb in
  -lgip)
    printf '%s\n| GPU instance profiles:                                                      |\n' "$line"
    offers | while read -r name id most _; do printf '|   0  MIG %-13s %2d     %d/%d        9.75       No     16     1     0   |\n' "$name" "$id" "$most" "$most"; done
    echo "$line";;
  -lgipp) offers | while read -r _ id _ size starts; do echo "GPU  0 Profile ID $id Placements: {$starts}:$size"; done;;
  -lgi)
    [ -s "$table" ] || { echo 'No GPU instances found: Not Found'; exit 6; }
    printf '%s\n| GPU instances:                                        |\n' "$line"
    while read -r gi name id from size _; do printf '|   0  MIG %-15s %3d      %3d          %d:%d     |\n' "$name" "$id" "$gi" "$from" "$size"; done <"$table"
    echo "$line";;
  -lci)
    grep -q ' 1$' "$table" || { echo 'No compute instances found: Not Found'; exit 6; }
    printf '%s\n| Compute instances:                                                 |\n' "$line"
    while read -r gi name _ _ size ci; do
      [ "$ci" != 1 ] || printf '|   0     %3d       MIG %-15s 0         0          0:%d     |\n' "$gi" "$name" "$size"
    done <"$table"
    echo "$line";;
  -cgi)
    for asked in $(echo "$list" | tr , ' '); do
      chosen=$(offers | grep -e "^$asked " -e "^[^ ]* $asked ")
      set -- $chosen
      [ $# = 5 ] || { echo "Unable to create a GPU instance on GPU  0 using profile $asked: Not Supported"; exit 3; }
      start=''
      for it in $(echo "$5" | tr , ' '); do if [ -z "$start" ] && free "$it" "$4"; then start=$it; fi; done
      [ -n "$start" ] || { echo "Unable to create a GPU instance on GPU  0 using profile $2: Insufficient Resources"; exit 19; }
      gi=1; while grep -q "^$gi " "$table"; do gi=$((gi + 1)); done
      echo "$gi $1 $2 $start $4 ${compute:-0}" >>"$table"
      echo "Successfully created GPU instance ID  $gi on GPU  0 using profile MIG $1 (ID $2)"
      [ -z "$compute" ] || echo "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  $gi using profile MIG $1 (ID  0)"
    done;;
  -dci)
    grep -q ' 1$' "$table" || { echo 'No compute instances found: Not Found'; exit 6; }
    if [ "$(holders 0)" -gt 0 ]; then
      echo 'Unable to destroy compute instance ID  0 from GPU  0 GPU instance ID  1: In use by another client'
      echo 'Failed to destroy compute instances: In use by another client'; exit 19
    fi
    sed "s/^\(${one:-[0-9]*} .*\) 1\$/\1 0/" "$table" >"$table.new"; mv "$table.new" "$table"
    echo 'Successfully destroyed compute instance ID  0 from GPU  0';;
  -dgi)
    [ -s "$table" ] || { echo 'No GPU instances found: Not Found'; exit 6; }
    if grep -q "^${one:-[0-9]*} .* 1\$" "$table"; then
      echo 'Unable to destroy GPU instance ID  1 from GPU  0: In use by another client'
      echo 'Failed to destroy GPU instances: In use by another client'; exit 19
    fi
    sed "/^${one:-[0-9]*} /d" "$table" >"$table.new"; mv "$table.new" "$table"
    echo 'Successfully destroyed GPU instance from GPU  0';;
  -cci) sed 's/ 0$/ 1/' "$table" >"$table.new"; mv "$table.new" "$table"; echo 'Successfully created compute instance';;
  *) echo 'Invalid combination of input arguments. Please run nvidia-smi mig -h'; exit 2;;
esac
exit 0
