#!/bin/sh
# Takes out of a Debian or Ubuntu root what a running image does not need: package managers, perl, manuals,
# translations, set-user-id bits. What is installed stays listed in /var/lib/dpkg/status, for scanners.
set -eu
rm -rf /var/cache/* /var/log/* /var/lib/apt /etc/apt \
       /usr/share/doc /usr/share/man /usr/share/info /usr/share/locale /usr/share/lintian /usr/share/i18n \
       /usr/share/python-wheels /usr/share/bash-completion /usr/share/zsh /usr/lib/apt /usr/libexec/dpkg
rm -rf /usr/lib/python3*/ensurepip /usr/lib/python3*/lib2to3 /usr/lib/python3*/idlelib \
       /usr/local/lib/python3*/ensurepip /usr/local/lib/python3*/site-packages/pip* \
       /usr/local/lib/python3*/idlelib /usr/local/lib/python3*/test /usr/local/bin/pip* /usr/local/include
rm -f /usr/bin/apt* /usr/bin/dpkg* /usr/bin/deb* /usr/bin/gpgv /usr/sbin/update-ca-certificates \
      /usr/bin/perl* /usr/bin/cpan*
rm -rf /usr/lib/*/perl-base /usr/lib/*/perl /usr/share/perl*
find / -xdev -type f -perm /6000 -exec chmod a-s {} +
