#!/usr/bin/env bash
# The certificates of these tests, good for a century: an authority, a server at 127.0.0.1 and a client that it vouches for,
# and an authority that nobody trusts. Keys of tests open nothing.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key.pem"; }
authority() {
  key "$1"
  openssl req -x509 -new -key "$1.key.pem" -subj "/CN=frazil test $1" -days 36500 -out "$1.pem" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
}
# signed NAME EXTENSION
signed() {
  key "$1"
  openssl req -new -key "$1.key.pem" -subj "/CN=frazil test $1" |
    openssl x509 -req -CA authority.pem -CAkey authority.key.pem -days 36500 -out "$1.pem" \
      -extfile <(printf '%s\nbasicConstraints=CA:FALSE\n' "$2")
}
authority authority
authority stranger
signed server 'subjectAltName=IP:127.0.0.1'
signed client 'extendedKeyUsage=clientAuth'
rm authority.key.pem stranger.key.pem
