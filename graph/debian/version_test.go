package debian

import (
	"testing"

	"pgregory.net/rapid"

	"weft/internal/assert"
)

// The order that deb-version(7) describes: each version is earlier than the next, those of one row are equal.
func TestCompareVersions(t *testing.T) {
	ascending := [][]string{
		{"~~"},
		{"~~a"},
		{"~"},
		{"", "0", "0:0", "0-0", "00:00-00"},
		{"0a"},
		{"0.0", "0.0-0"}, // letters come before everything else but the tilde
		{"0.1~rc1-1"},
		{"0.1-1"},
		{"0.9"},
		{"0.10", "0.010"},
		{"1.0~beta1~svn1245"},
		{"1.0~beta1"},
		{"1.0", "1.0-", "1.0-0", "0:1.0", "01.0"},
		{"1.0-0+deb12u1"},
		{"1.0-1"},
		{"1.0-1+b1"},
		{"1.0-1.1"},
		{"1.0-2~bpo12+1"},
		{"1.0-2"},
		{"1.0a"},
		{"1.0z-1"},
		{"1.0+dfsg-1"},
		{"1.0-rc1-1"}, // a letter after the hyphen of the upstream part, which a revision follows
		{"1.0.1"},
		{"1.1"},
		{"1.18446744073709551615"},
		{"1.18446744073709551616"}, // beyond 64 bits
		{"22.01+dfsg-8"},
		{"22.01+really26.02+dfsg-0+deb12u1"},
		{"20230311"},
		{"1:0.1"},
		{"1:2.0:1-1"},
		{"2:0~"},
		{"10:0"},
	}
	for i, row := range ascending {
		for _, a := range row {
			for j, other := range ascending {
				for _, b := range other {
					want := 0
					if i < j {
						want = -1
					} else if i > j {
						want = 1
					}
					assert.Equal(t, want, compareVersions(a, b), "compareVersions(%q, %q)", a, b)
				}
			}
		}
	}
}

// Any strings have one order, or the graph would depend on the order of the lists.
func TestCompareVersionsIsAnOrder(t *testing.T) {
	version := rapid.StringMatching(`[0-9a:~+.-]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := version.Draw(t, "a"), version.Draw(t, "b"), version.Draw(t, "c")
		assert.Equal(t, -compareVersions(b, a), compareVersions(a, b), "%q against %q", a, b)
		if compareVersions(a, b) <= 0 && compareVersions(b, c) <= 0 && compareVersions(a, c) > 0 {
			t.Errorf("%q ≤ %q ≤ %q, but the last is earlier than the first", a, b, c)
		}
	})
}
