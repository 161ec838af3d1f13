#!/bin/sh
# Prepares a job: sh prepare.sh SHELL SETUP COPY_FROM WORKDIR ENVIRONMENT [LINK TARGET]...
# Empty arguments mean "not asked". WORKDIR (when copied to) and ENVIRONMENT are there. Every step may be repeated.
set -eu
shell=$1 setup=$2 copy_from=$3 workdir=$4 environment=$5
shift 5

if [ -n "$copy_from" ]; then
    echo "[anycard] copying $copy_from"
    mkdir -p -- "$workdir"
    find "$workdir" -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +
    cp -Rp -- "$copy_from/." "$workdir/"
fi
cd -- "$workdir"

while [ $# -ge 2 ]; do
    link=$1 target=$2
    shift 2
    if [ -L "$link" ] && [ "$(readlink -- "$link")" = "$target" ]; then
        continue
    fi
    if [ -e "$link" ] || [ -L "$link" ]; then
        echo "[anycard] file_mounts: $link exists already and is not a link to $target; move it away or choose another place" >&2
        exit 73
    fi
    case $link in */*) mkdir -p -- "${link%/*}" ;; esac
    ln -s -- "$target" "$link"
    echo "[anycard] $link -> $target"
done

if [ -n "$environment" ] && [ ! -e "$environment/.anycard-complete" ]; then
    echo "[anycard] making the environment $environment"
    python3 -m venv --clear "$environment"
    : >"$environment/.anycard-complete"
fi

if [ -n "$setup" ]; then
    exec "$shell" "$setup"
fi
