#!/bin/sh
# Puts the daemon into a root directory, whole or not at all: install.sh [--downgrade | --remove] DIRECTORY
# The files lie in `root` beside this script, and `needs` beside it tells what they need. `./build.sh install` and the
# packages' tarball run it; it needs no more than a busybox.
set -eu
umask 022
export LC_ALL=C
here=$(cd "${0%/*}" && pwd -P)
no() { echo "install.sh: $*" >&2; exit 1; }
usage() { echo "usage: install.sh [--downgrade | --remove] DIRECTORY"; }

option=
case ${1:-} in
  -h | --help) usage; exit ;;
  --downgrade | --remove) option=$1; shift ;;
esac
case $#:${1:-} in
  1:-* | 1: | [!1]*) usage >&2; exit 2 ;;
esac
[ -f "$here/needs" ] || no "there is no file 'needs' beside this script, and so nothing to install"
# What `needs` tells, arch being amd64 or arm64.
version='' arch='' glibc='' kib=''
# shellcheck disable=SC1091
. "$here/needs"

mkdir -p "$1" 2>/dev/null || no "cannot make $1"
to=$(cd "$1" && pwd -P)
to=${to%/}
shown=${to:-/}
files=$(cd "$here/root" && find . -type f | sed 's/^\.//' | sort)

# The processor that a program is for.
arch_of() {
  case $(od -An -tx1 -j18 -N2 "$1" 2>/dev/null | tr -d ' \n') in
    3e00) echo amd64 ;;
    b700) echo arm64 ;;
    *) echo another ;;
  esac
}

# libraries NAME: the files of that name, wherever distributions have their C library.
libraries() {
  for library in "$to"/usr/lib/*-linux-gnu/"$1" "$to"/lib/*-linux-gnu/"$1" "$to"/usr/lib64/"$1" "$to"/lib64/"$1" \
    "$to"/usr/lib/"$1" "$to"/lib/"$1"; do
    [ ! -f "$library" ] || echo "$library"
  done
}

# An empty directory is one that the files are collected in; everything else is a root, which they have to run in.
check_root() {
  [ -n "$(ls -A "$to/")" ] || { echo "install.sh: $shown is empty: what it will become is not looked at" >&2; return 0; }
  found=$(libraries libc.so.6)
  own=
  for library in $found; do
    other=$(arch_of "$library")
    if [ "$other" = "$arch" ]; then own=$library; break; fi
  done
  if [ -z "$own" ]; then
    [ -z "$found" ] || no "$shown is for another processor ($other), and this guestd is for $arch"
    for musl in "$to"/lib/ld-musl-* "$to"/usr/lib/ld-musl-*; do
      [ ! -e "$musl" ] || no "$shown has musl for its C library, and Deno needs glibc"
    done
    no "$shown has no glibc: it is no root that guestd can run in"
  fi
  there=$(tr -c '[:print:]' '\n' <"$own" | sed -n 's/.* release version \([0-9][0-9.]*[0-9]\).*/\1/p' | head -n 1)
  [ -n "$there" ] || no "$own does not tell its version"
  ! older "$there" "$glibc" || no "$shown has glibc $there, and this guestd needs $glibc or later"
  [ -n "$(libraries libgcc_s.so.1)" ] ||
    no "$shown has no libgcc_s.so.1, which Deno needs: it is in the package libgcc-s1 or libgcc"
}

# older A B: whether version A comes before B.
older() {
  [ "$1" != "$2" ] || return 1
  a=${1%%-*}. b=${2%%-*}.
  while [ -n "$a$b" ]; do
    x=${a%%.*} y=${b%%.*}
    [ "${x:-0}" -eq "${y:-0}" ] || { [ "${x:-0}" -lt "${y:-0}" ]; return; }
    a=${a#*.} b=${b#*.}
  done
  return 1
}

check_version() {
  before=$(cat "$to/usr/lib/guestd/version" 2>/dev/null || true)
  [ -n "$before" ] && [ "$option" != --downgrade ] && older "$version" "$before" || return 0
  no "$shown has guestd $before, which is newer than $version: --downgrade installs this one all the same"
}

# The directory of that name, or the nearest above it that there is.
nearest() {
  at=$1
  while [ ! -d "$at" ]; do at=${at%/*}; done
  echo "${at:-/}"
}

check_room() {
  place=$(nearest "$to/usr/lib/guestd")
  room=$(df -Pk "$place" | awk 'NR == 2 { print $4 }')
  [ "$room" -ge "$kib" ] || no "$shown has too little room: guestd takes $((kib / 1024)) MiB, and $((room / 1024)) are free"
  probe=$place/.guestd-probe-$$
  (: >"$probe") 2>/dev/null || no "cannot write to $place: it is read-only, or another user's"
  rm -f "$probe"
}

# Of what was begun nothing stays.
made=
undo() {
  for file in $files; do rm -f "$to$file.guestd-new"; done
  for directory in $made; do rmdir "$directory" 2>/dev/null || true; done
}

make_directory() {
  [ ! -d "$1" ] || return 0
  make_directory "${1%/*}"
  mkdir "$1" || return 1
  made="$1 $made"
}

copy_all() {
  for file in $files; do
    make_directory "$to${file%/*}" && cp "$here/root$file" "$to$file.guestd-new" || return 1
    if [ -x "$here/root$file" ]; then chmod 0755 "$to$file.guestd-new"; else chmod 0644 "$to$file.guestd-new"; fi || return 1
  done
}

# Files are replaced by their names: a daemon that runs keeps those that it has open.
put_in_place() {
  for file in $files; do
    case $file in
      /etc/*) if [ -e "$to$file" ]; then rm "$to$file.guestd-new"; continue; fi ;;
    esac
    mv -f "$to$file.guestd-new" "$to$file"
  done
  # Of a version before this one.
  for file in "$to"/usr/lib/guestd/*; do [ -e "$here/root${file#"$to"}" ] || rm -f "$file"; done
}

running() {
  for exe in /proc/[0-9]*/exe; do
    case $(readlink "$exe" 2>/dev/null || true) in
      "$to"/usr/lib/guestd/deno* | "$to"/usr/lib/guestd/guestd*) pid=${exe#/proc/}; echo "${pid%/exe}" ;;
    esac
  done
}

remove() {
  for file in $files; do
    case $file in /etc/*) ;; *) rm -f "$to$file" || no "cannot remove $to$file" ;; esac
  done
  for file in $files; do
    directory=$to${file%/*}
    while [ "$directory" != "$to" ] && rmdir "$directory" 2>/dev/null; do directory=${directory%/*}; done
  done
}

if [ "$option" = --remove ]; then
  remove
  for pid in $(running); do echo "install.sh: process $pid still runs: kill $pid ends it" >&2; done
  exit
fi
check_root
check_version
check_room
trap 'undo; exit 1' INT TERM HUP
copy_all || { undo; no "cannot write to $shown: nothing was changed"; }
trap '' INT TERM HUP
put_in_place
for pid in $(running); do
  echo "install.sh: process $pid goes on as the version that it is, with its commands and its token; its next start is $version" >&2
done
