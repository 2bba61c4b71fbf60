package task

import (
	"fmt"
	"testing"

	"weft/internal/assert"
)

func TestParseShares(t *testing.T) {
	for text, want := range map[string]Shares{
		"85/5/10": {85, 5, 10}, "99.5/.2/0.3": {99.5, .2, .3},
		"100/0/0": {100, 0, 0},
	} {
		var s, again Shares
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
		if err := again.UnmarshalText([]byte(fmt.Sprint(s))); err != nil || again != s {
			t.Errorf("%s is written as %v", text, s)
		}
	}
	for _, text := range []string{
		"", "85/15", "85/5/5", "0/50/50", "a/b/c", "-5/5/100", "NaN/5/5", "80/10/5/5", "Inf/0/0",
	} {
		var s Shares
		assert.Error(t, s.UnmarshalText([]byte(text)), "%q is read as %v", text, s)
	}
}
