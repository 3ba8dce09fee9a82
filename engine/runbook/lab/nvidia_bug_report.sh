#!/bin/sh
# A pretended nvidia-bug-report.sh: writes the compressed report that it is asked for, or one in the current directory.
report=nvidia-bug-report.log
while [ $# -gt 0 ]; do
  case $1 in --output-file) shift; report=$1;; esac
  shift
done
echo 'nvidia-bug-report.sh will now collect information about your system.'
{
  echo '____________________________________________'
  echo 'Start of NVIDIA bug report log file.'
  nvidia-smi --query
  echo 'WANDB_API_KEY=0123456789abcdef0123456789abcdef'
  echo 'End of NVIDIA bug report log file.'
} | gzip -c >"$report.gz"
echo "Your bug report is $report.gz"
