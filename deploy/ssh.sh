#!/bin/bash
# Offers one load from several machines that ssh reaches, and collects the report here:
#   ssh.sh HOST… -- CONTROLLER_FLAGS…
# TRUETAIL_AGENT_FLAGS are the agents' limits, as `--allow-target api.test:8080`. PORT is theirs, 0
# for any that is free. TRUETAIL is the binary, which each host gets in a folder of its own, and SSH
# the command that reaches it.
set -euo pipefail
# The controller takes TRUETAIL_… for its own flags.
export -n TRUETAIL_AGENT_FLAGS
truetail=${TRUETAIL:-target/release/truetail}
read -ra ssh <<<"${SSH:-ssh}"
hosts=()
while [[ $# -gt 0 && $1 != -- ]]; do
  hosts+=("$1")
  shift
done
if [[ ${#hosts[@]} -eq 0 || $# -lt 2 ]]; then
  echo "usage: $0 HOST… -- CONTROLLER_FLAGS…" >&2
  exit 2
fi
shift

umask 077
work=$(mktemp -dt truetail.XXXXXX)
# Each ssh reads from here, and its agent ends with that input: however this script ends.
mkfifo "$work/open"
exec 3<>"$work/open"
trap 'exec 3>&-; wait; rm -r "$work"' EXIT
head -c 32 /dev/urandom | base64 >"$work/key"
cp "$truetail" "$work/truetail"

for host in "${hosts[@]}"; do
  # Of its own even if the hosts share a home.
  folder=${work##*/}.$host
  tar -c -C "$work" key truetail |
    "${ssh[@]}" "$host" "umask 077; mkdir $folder && tar -x -C $folder" 3>&-
  # The folder stays if it has the report of a run that the controller couldn't collect.
  "${ssh[@]}" "$host" "cd $folder || exit
    ./truetail agent --listen 0.0.0.0:${PORT:-7070} --key-file key --state-dir . \
      ${TRUETAIL_AGENT_FLAGS:-} & agent=\$!
    cat >/dev/null; kill \$agent; wait \$agent; rm key truetail *.lock; cd .. && rmdir $folder" \
    <"$work/open" >"$work/$host.log" 2>&1 3>&- &
done
agents=()
for host in "${hosts[@]}"; do
  log=$work/$host.log
  for _ in {1..300}; do
    if grep -qE '^([^ ]+ listening on|truetail:) ' "$log" 2>/dev/null; then break; fi
    sleep 0.1
  done
  port=$(sed -n 's/^[^ ]* listening on .*:\([0-9]*\) .*/\1/p' "$log")
  if [[ -z $port ]]; then
    echo "$host: no agent listens: $(cat "$log")" >&2
    exit 1
  fi
  # What ssh_config calls this host.
  name=$("${ssh[@]}" -TG "$host" | sed -n 's/^hostname //p')
  agents+=("$name:$port")
done
"$truetail" controller --agents "$(IFS=,; echo "${agents[*]}")" --key-file "$work/key" "$@" \
  <&0 3>&- &
controller=$!
# The controller stops the load and reports what was measured; Ctrl-C reaches it anyway. The wait
# that the signal ends is repeated.
trap 'kill "$controller"' TERM
trap : INT
code=0
wait "$controller" || wait "$controller" || code=$?
exit $code
