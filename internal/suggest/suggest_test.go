package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"model", "layers", "hidden", "heads", "lr", "norm", "normalize-features", "eval-every", "train", "bench"}
	for typed, want := range map[string]string{
		"modl": "model", "hiden": "hidden", "hidddden": "hidden", "trian": "train", "Norm": "norm", "LR": "lr", "lrr": "lr",
		"eval_every": "eval-every", "lay": "layers", "normalize": "normalize-features", "heds": "heads",
		"a": "", "l": "", "r": "", "lx": "", "": "", "nosuch": "", "zzz": "", "he": "", "tr": "", "frobnicate": "",
		strings.Repeat("hidden", 1<<18): "",
	} {
		if got := Nearest(typed, words); got != want {
			t.Errorf("%.20q: %q, want %q", typed, got, want)
		}
	}
}

func TestOneOf(t *testing.T) {
	words := []string{"gcn", "sage"}
	for typed, want := range map[string]string{"sgae": "did you mean sage?", "x": "it is one of gcn, sage"} {
		if got := OneOf(typed, words); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
}
