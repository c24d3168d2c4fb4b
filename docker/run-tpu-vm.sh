#!/usr/bin/env bash
# Runs unetkit's image on a Cloud TPU VM: docker/run-tpu-vm.sh [UNETKIT ARGUMENTS], as
#
#   docker/run-tpu-vm.sh train recipes/tpu-v5e-8.yaml --run runs/first
#
# IMAGE (default: unetkit-tpu) is one that the VM has or can pull. The current folder is /workspace inside. The same command again
# goes on with an interrupted run. DRY_RUN=1 prints the command and does nothing.
set -euo pipefail
image=${IMAGE:-unetkit-tpu}
name=${NAME:-unetkit}
folder=${FOLDER:-$PWD}

if [ $# -eq 0 ]; then
  echo "usage: docker/run-tpu-vm.sh train RECIPE [--run DIR] ..., or doctor, or any other command of unetkit" >&2
  exit 2
fi

# --privileged: the device files of the chips. --net=host: Google's metadata server, and the other hosts of a pod.
# --shm-size: libtpu keeps its buffers in shared memory. --stop-timeout: time to save after `docker stop`, which sends SIGTERM.
command=(docker run --rm --name "$name" --privileged --net=host --shm-size=16g --ulimit memlock=-1 --stop-timeout 120
  --volume "$folder:/workspace")
for variable in WANDB_API_KEY WANDB_MODE TPU_NAME; do
  if [ -n "${!variable:-}" ]; then command+=(--env "$variable"); fi # by name: no key on a command line
done
command+=("$image" "$@")

if [ -n "${DRY_RUN:-}" ]; then
  printf '%q ' "${command[@]}"
  echo
else
  docker rm --force "$name" >/dev/null 2>&1 || true # what a preempted VM left
  exec "${command[@]}"
fi
