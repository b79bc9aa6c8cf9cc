#!/bin/bash
# Runs what this folder has on this machine, and prints a line for each part:
#   test.sh [BINARY [PART]]
# podman plays the pods of Kubernetes; the hosts of ssh and the nodes of Slurm are processes on
# loopback. A part whose programs are missing is skipped. All of them, on Debian:
#   apt-get install podman runc netavark aardvark-dns iptables
#   apt-get install openssh-server slurmctld slurmd slurm-client
# The parts are called by name.
# shellcheck disable=SC2317
set -euo pipefail
binary=$(realpath "${1:-target/release/truetail}")
here=$(dirname "$(realpath "$0")")
# The agents' flags.
limits='--allow-target 127.0.0.0/8'

# Ends the part.
skip() {
  echo "$1"
  exit 77
}

# Skips the part without these programs, or without root, who may start them all.
need() {
  test "$(id -u)" = 0 || skip 'not root'
  for program; do
    PATH=$PATH:/usr/sbin:/usr/lib/podman command -v "$program" >/dev/null || skip "no $program"
  done
}

# The first line with this text in a file, which a process is about to write.
line() {
  for _ in {1..300}; do
    if grep -m 1 -- "$1" "$2" 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "no '$1' in $2: $(cat "$2")"
  return 1
}

# Starts a process that the end of the part ends; its output goes to $work/NAME.
start() {
  local name=$1
  shift
  "$@" >"$work/$name" 2>&1 &
  started+=($!)
}

# Starts a target on loopback; its address is $url.
target() {
  start target "$binary" target --listen 127.0.0.1:0
  url=$(line http:// "$work/target" | grep -o 'http://[^ ,]*')
}

# Fails unless this is the report of so many agents, and their merge.
verified() {
  "$binary" verify --details "$1" >"$work/verified" || { cat "$work/verified"; return 1; }
  grep -q "^ok  *agents  *$2\$" "$work/verified" || { echo "not $2 agents"; return 1; }
}

# The pod of a job of kubernetes.yaml under this name, with the load of a test. podman knows a
# profile only as an annotation, would publish the agents' one port on this machine, and fails if a
# secret isn't said to be needed.
pod() {
  local profile
  profile=$(sed -n 's/.*localhostProfile: //p;T;q' "$here/kubernetes.yaml")
  awk -v job="  name: $1" -v name="$2" -v profile="$profile" '
    /^---/ { mine = template = 0 }
    $0 == job { mine = 1 }
    template { print substr($0, 5) }
    template && /^    metadata:/ {
      print "  name: " name
      print "  annotations: {seccomp.security.alpha.kubernetes.io/pod: localhost/" profile "}"
    }
    mine && /^  template:/ { template = 1; print "apiVersion: v1\nkind: Pod" }
  ' "$here/kubernetes.yaml" | sed -e "s/image: .*/image: $image/" \
    -e 's/api\.example\.svc\.cluster\.local/target/' -e 's/cpu: "[0-9]*"/cpu: "1"/g' \
    -e '/^ *ports:/,/containerPort/d' -e 's/0440/0440, optional: false/' \
    -e "s/name: \(key\|state\)\>/name: \1-$2/" -e "s/secretName: .*,/secretName: $prefix-key,/" \
    -e 's/--rate=9k/--rate=300/' -e "s/\( *- \)--duration=60s/&\n\1--allow-invalid/" \
    -e "s/--duration=60s/--duration=$3/"
}

play() {
  pod "$1" "$2" "$4" >"$work/$2.yaml"
  podman kube play --quiet --network "$prefix:alias=$3" --seccomp-profile-root "$work/seccomp" \
    "$work/$2.yaml" >"$work/$2.play" 2>&1 || { cat "$work/$2.play"; return 1; }
}

# Waits until an agent listens. podman writes the secret anew for each pod, into the same file, so
# whoever reads the key while the next pod is made may find it empty.
listens() {
  for _ in {1..300}; do
    if [[ $(podman logs "$1" 2>&1) == *'listening on'* ]]; then return; fi
    sleep 0.1
  done
  echo "$1 doesn't listen: $(podman logs "$1" 2>&1)"
  return 1
}

# Three agents and a controller, for a load of this long.
pods() {
  local round=$1
  for agent in 1 2 3; do
    play truetail-agent "$prefix-$round$agent" truetail-agent "$2"
    listens "$prefix-$round$agent-agent"
  done
  play truetail-controller "$prefix-$round" "$prefix-controller" "$2"
}

# Fails unless a pod's one container ends with this exit code.
ends() {
  local code
  code=$(timeout 60 podman wait "$prefix-$1") || true
  if [[ $code != "$2" ]]; then
    echo "$1: ${code:-no} exit code, not $2"
    podman ps --all --filter "name=^$prefix-" --format '{{.Names}} {{.Status}}' |
      while read -r name status; do
        echo "$name: $status"
        podman logs --tail 5 "$name"
      done
    return 1
  fi
}

# The one report that a pod left in its volume.
left() {
  echo "$(podman volume inspect --format '{{.Mountpoint}}' "state-$prefix-$1")"/*.json
}

part_kubernetes() {
  need podman netavark aardvark-dns iptables
  prefix=truetail-test-$$
  image=$prefix:1
  # As many open files and processes as this shell may have, and a runtime for every layout of
  # cgroups.
  cat >"$work/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=1024:1024"]
[engine]
runtime = "$(command -v runc >/dev/null && echo runc || echo crun)"
[network]
network_backend = "netavark"
CONF
  export CONTAINERS_CONF=$work/containers.conf
  TAG=$image "$here/image.sh" "$binary" >/dev/null
  end() {
    local pods
    pods=$(podman pod ls --filter "name=^$prefix" --quiet)
    # The words are ids.
    # shellcheck disable=SC2086
    { test -z "$pods" || podman pod rm --force --time 0 $pods; podman rm --force "$prefix-target"
      podman volume ls --quiet | grep -- "$prefix" | xargs -r podman volume rm --force
      podman secret rm "$prefix-key"; podman network rm "$prefix"; podman rmi "$image"
    } >/dev/null 2>&1 || true
  }
  podman network create "$prefix" >/dev/null
  mkdir "$work/seccomp"
  cp "$here/seccomp.json" "$work/seccomp/truetail.json"
  head -c 32 /dev/urandom | base64 >"$work/key"
  cat >"$work/secret.yaml" <<SECRET
apiVersion: v1
kind: Secret
metadata:
  name: $prefix-key
data:
  key: $(base64 -w 0 "$work/key")
SECRET
  podman kube play "$work/secret.yaml" >/dev/null
  podman run --quiet --detach --name "$prefix-target" --network "$prefix:alias=target" \
    --security-opt seccomp="$here/seccomp.json" "$image" target --listen 0.0.0.0:8080 >/dev/null

  # To its end.
  pods a 3s
  ends a-controller 0
  for agent in 1 2 3; do ends "a$agent-agent" 0; done
  verified "$(left a)" 3

  # SIGTERM to the controller: it reports what was measured.
  pods b 60s
  podman logs --follow "$prefix-b1-agent" >"$work/b1" 2>&1 &
  line 'run begun' "$work/b1"
  sleep 4
  podman kill --signal TERM "$prefix-b-controller" >/dev/null
  ends b-controller 130
  grep -q '"interrupted": true' "$(left b)"
  verified "$(left b)" 3

  # SIGTERM to an agent: it keeps what it measured.
  pods c 60s
  podman logs --follow "$prefix-c1-agent" >"$work/c1" 2>&1 &
  line 'run begun' "$work/c1"
  sleep 4
  podman kill --signal TERM "$prefix-c1-agent" >/dev/null
  ends c1-agent 130
  ends c-controller 5
  verified "$(left c1)" 1

  # Without the profile, io_uring is refused.
  code=0
  podman run --rm "$image" run http://127.0.0.1:9/ >"$work/refused" 2>&1 || code=$?
  test "$code" = 1
  grep -q '^truetail: io_uring: refused' "$work/refused" || { cat "$work/refused"; return 1; }
}

part_kustomize() {
  need kubectl
  kubectl kustomize "$here" >"$work/objects"
  test "$(grep -c '^kind: ' "$work/objects")" = 3
  # The overlay of the documentation replaces what it says.
  mkdir "$work/load"
  cp -r "$here" "$work/deploy"
  # shellcheck disable=SC2016
  sed -n '/^```yaml$/,/^```$/{/^```$/q;/^```/!p}' "$here/../docs/deploying.md" >"$work/load/kustomization.yaml"
  kubectl kustomize "$work/load" >"$work/objects"
  test "$(grep -c '^kind: ' "$work/objects")" = 3
  test "$(grep -cE 'api\.test:8080|--rate=20k|claimName: report|registry\.test/' "$work/objects")" = 6
  if grep -E 'example|9k' "$work/objects"; then return 1; fi
}

part_ssh() {
  need ssh ssh-keygen sshd tar
  local hosts=() port=$((20000 + RANDOM % 10000))
  target
  ssh-keygen -q -t ed25519 -N '' -f "$work/host"
  ssh-keygen -q -t ed25519 -N '' -f "$work/user"
  # sshd doesn't start without it, and finds it only if its service has run.
  mkdir -p /run/sshd
  for host in 1 2 3; do
    port=$((port + 1))
    start "sshd$host" "$(PATH=$PATH:/usr/sbin command -v sshd)" -De -f /dev/null -p "$port" \
      -o ListenAddress=127.0.0.1 -h "$work/host" -o PidFile=none -o StrictModes=no \
      -o AuthorizedKeysFile="$work/user.pub" -o PasswordAuthentication=no
    cat >>"$work/config" <<HOST
Host test$port
  HostName 127.0.0.1
  Port $port
HOST
    hosts+=("test$port")
    line 'listening on' "$work/sshd$host" >/dev/null
  done
  cat >>"$work/config" <<HOST
Host *
  IdentityFile $work/user
  IdentitiesOnly yes
  StrictHostKeyChecking accept-new
  UserKnownHostsFile $work/known
HOST
  SSH="ssh -F $work/config" PORT=0 TRUETAIL=$binary TRUETAIL_AGENT_FLAGS=$limits \
    "$here/ssh.sh" "${hosts[@]}" -- \
    "$url" --rate 300 --duration 3s --allow-invalid --out "$work/report"
  verified "$work/report" 3
  for host in "${hosts[@]}"; do
    if compgen -G "$HOME/truetail.*.$host"; then return 1; fi
  done
}

part_slurm() {
  need munged slurmctld slurmd sbatch
  local port=$((20000 + RANDOM % 10000))
  target
  PATH=$PATH:/usr/sbin
  mkdir "$work/state"
  chmod 755 "$work"
  head -c 1024 /dev/urandom >"$work/munge.key"
  chmod 600 "$work/munge.key"
  start munged munged --foreground --force --key-file "$work/munge.key" \
    --socket "$work/munge" --pid-file "$work/munged.pid" --log-file "$work/munged.log" \
    --seed-file "$work/munged.seed"
  cat >"$work/slurm.conf" <<CONF
ClusterName=truetail
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthInfo=socket=$work/munge
StateSaveLocation=$work/state
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
SlurmdSpoolDir=$work/%n.spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/linear
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 1))
NodeName=n2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 2))
NodeName=n3 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 3))
NodeName=n4 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 4))
PartitionName=all Nodes=ALL Default=YES MaxTime=5 State=UP
CONF
  export SLURM_CONF=$work/slurm.conf
  start slurmctld slurmctld -D
  for node in n1 n2 n3 n4; do
    mkdir "$work/$node.spool"
    start "$node" slurmd -D -N "$node"
  done
  for _ in {1..300}; do
    if test "$(sinfo -h -t idle -o %D 2>/dev/null)" = 4; then break; fi
    sleep 0.1
  done
  mkdir "$work/job"
  cd "$work/job"
  PORT=0 TRUETAIL=$binary TRUETAIL_AGENT_FLAGS=$limits timeout 90 \
    sbatch --wait --nodes 4 "$here/slurm/truetail.sbatch" "$url" --rate 300 --duration 3s --allow-invalid || { cat slurm-*.out; return 1; }
  verified truetail-*/report.json 3
}

part_systemd() {
  need systemd-analyze
  sed "s|/usr/local/bin/truetail|$binary|" "$here/truetail-agent.service" \
    >"$work/truetail-agent.service"
  systemd-analyze verify "$work/truetail-agent.service" 2>"$work/warnings"
  test ! -s "$work/warnings"
}

if [[ $# -eq 2 ]]; then
  work=$(mktemp -dt truetail-test.XXXXXX)
  started=()
  end() { :; }
  ended() {
    end
    # In reverse: a daemon ends before those that it needs.
    for ((i = ${#started[@]} - 1; i >= 0; i--)); do kill "${started[i]}" 2>/dev/null || true; done
    wait
    rm -rf "$work"
  }
  trap ended EXIT
  trap 'exit 143' TERM
  "part_$2"
  exit
fi

failed=0
log=$(mktemp)
trap 'rm "$log"' EXIT
for part in kubernetes kustomize ssh slurm systemd; do
  code=0
  timeout --kill-after 20 240 "$0" "$binary" "$part" >"$log" 2>&1 || code=$?
  case $code in
    0) echo "$part: passed" ;;
    77) echo "$part: skipped: $(tail -n 1 "$log")" ;;
    *) echo "$part: failed, exit code $code"; tail -n 40 "$log"; failed=1 ;;
  esac
done
exit $failed
