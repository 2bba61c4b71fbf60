package axis

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"weft/internal/assert"
)

// TestWireSchedule: c(k) = max(c_max − a·(c_max − c_min)·k/K, c_min) by hand, for c_min = 1 (Cerviño et al.,
// arXiv 2406.17611), and ⌈d/c⌉ of d columns.
func TestWireSchedule(t *testing.T) {
	for _, c := range []struct {
		text           string
		epoch, epochs  int
		ratio          float64
		columns, sends int
	}{
		{"varco", 1, 100, 128, 128, 1},
		{"varco", 1, 100, 128, 129, 2},
		{"varco", 1, 100, 128, 5, 1},
		{"varco", 11, 100, 128 - 63.5, 128, 2},    // 5·127·10/100 = 63.5
		{"varco", 20, 100, 128 - 120.65, 128, 18}, // 5·127·19/100 = 120.65, and 128/7.35 = 17.4
		{"varco", 21, 100, 1, 128, 128},           // 5·127·20/100 = 127
		{"varco", 100, 100, 1, 5, 5},
		{"varco:slope=2", 26, 100, 64.5, 128, 2}, // 2·127·25/100 = 63.5
		{"varco:from=9,slope=1", 3, 4, 5, 10, 2}, // 8·2/4 = 4
		{"varco:from=9", 1, 4, 9, 10, 2},
		{"varco:from=4,slope=0", 4, 4, 4, 10, 3},
		{"VARCO:Slope=0,FROM=4", 4, 4, 4, 10, 3}, // names are written in any case
		{"none", 1, 4, 0, 10, 10},
		{"None", 1, 4, 0, 10, 10},
	} {
		var s, again WireSchedule
		assert.NoError(t, s.UnmarshalText([]byte(c.text)))
		if got := s.Ratio(c.epoch, c.epochs); s != (WireSchedule{}) && math.Abs(got-c.ratio) > 1e-9 {
			t.Errorf("%s, epoch %d of %d: a ratio of %v, want %v", c.text, c.epoch, c.epochs, got, c.ratio)
		}
		if got := s.Sent(c.columns, c.epoch, c.epochs); got != c.sends {
			t.Errorf("%s, epoch %d of %d: %d of %d columns, want %d", c.text, c.epoch, c.epochs, got,
				c.columns, c.sends)
		}
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%s is written as %s, %v", c.text, s, err)
		}
	}
	if got, want := (WireSchedule{Slope: 1, From: 9}).Mean(4), (1./9+1./7+1./5+
		1./3)/4; math.Abs(got-want) > 1e-12 {
		t.Errorf("a mean epoch sends %v of all columns, want %v", got, want)
	}
	for _, text := range []string{
		"", "varco:", "linear", "varco:slope", "varco:slope=-1", "varco:from=1",
		"varco:from=NaN", "varco:slope=Inf", "varco:slope=2,slope=3", "varco:a=2",
	} {
		var s WireSchedule
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, s)
		}
	}
}

// TestWords: each choice is found by its name, in any case, and others are refused.
func TestWords(t *testing.T) {
	for name, want := range map[string]fmt.Stringer{
		"auto": AsStored, "f32": Float32, "bf16": BFloat16, "int8": Int8, "INT4": Int4,
		"zeros": Zeros, "Warm": Warm, "shuffle": Shuffle, "fixed": Fixed,
		"drop-scale": DropScale, "drop": Drop, "keep": Keep,
	} {
		word := reflect.New(reflect.TypeOf(want))
		read := word.Interface().(encoding.TextUnmarshaler)
		if err := read.UnmarshalText([]byte(name)); err != nil || word.Elem().Interface() != any(want) {
			t.Errorf("%s is read as %v, %v", name, word.Elem(), err)
		}
		if !strings.EqualFold(want.String(), name) {
			t.Errorf("%s is written as %s", name, want)
		}
		if err := read.UnmarshalText([]byte("nonsense")); err == nil {
			t.Errorf("nonsense is a %T", want)
		}
	}
}
