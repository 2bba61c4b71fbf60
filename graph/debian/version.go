package debian

import (
	"cmp"
	"strings"
)

// compareVersions compares two Debian package versions, [epoch:]upstream[-revision], by deb-version(7). It is
// negative if a is earlier than b, zero if they are equal ("1.0" and "1.0-0" are), and positive if a is
// later. It is a total preorder over all strings, valid versions or not.
func compareVersions(a, b string) int {
	epochA, upstreamA, revisionA := splitVersion(a)
	epochB, upstreamB, revisionB := splitVersion(b)
	return cmp.Or(
		compareParts(epochA, epochB),
		compareParts(upstreamA, upstreamB),
		compareParts(revisionA, revisionB))
}

// splitVersion cuts a version at its first colon and its last hyphen. An absent part is empty, which compares
// as "0".
func splitVersion(v string) (epoch, upstream, revision string) {
	if before, after, found := strings.Cut(v, ":"); found {
		epoch, v = before, after
	}
	if i := strings.LastIndexByte(v, '-'); i >= 0 {
		return epoch, v[:i], v[i+1:]
	}
	return epoch, v, ""
}

// compareParts compares by turns a run of non-digits, character by character in the order of rank, and a run
// of digits as a number of any length.
func compareParts(a, b string) int {
	for a != "" || b != "" {
		for rank(a) != 0 || rank(b) != 0 {
			if c := cmp.Compare(rank(a), rank(b)); c != 0 {
				return c
			}
			a, b = a[1:], b[1:]
		}
		var numberA, numberB string
		numberA, a = cutNumber(a)
		numberB, b = cutNumber(b)
		if c := cmp.Or(cmp.Compare(len(numberA), len(numberB)), cmp.Compare(numberA, numberB)); c != 0 {
			return c
		}
	}
	return 0
}

// rank returns the order of the first character of s among non-digits: a tilde, then the end of the run (0: a
// digit or nothing follows), then letters, then everything else.
func rank(s string) int {
	switch {
	case s == "" || isDigit(s[0]):
		return 0
	case s[0] == '~':
		return -1
	case 'a' <= s[0] && s[0] <= 'z', 'A' <= s[0] && s[0] <= 'Z':
		return int(s[0])
	default:
		return int(s[0]) + 256
	}
}

// cutNumber cuts the leading digits off s and drops their leading zeros, so that a longer number is greater.
func cutNumber(s string) (number, rest string) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return strings.TrimLeft(s[:n], "0"), s[n:]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
