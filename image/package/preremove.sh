#!/bin/sh
# Of a .deb (remove, upgrade, deconfigure) and of an .rpm (0 for the last removal): removed, it is ended first, and off. An
# upgrade leaves the daemon as it is.
case ${1:-} in remove | 0) ;; *) exit 0 ;; esac
command -v systemctl >/dev/null || exit 0
if [ -d /run/systemd/system ]; then systemctl stop guestd.service || exit 1; fi
systemctl disable guestd.service >/dev/null 2>&1 || true
