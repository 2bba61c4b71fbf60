package refusal

import (
	"errors"
	"fmt"
	"testing"
)

// TestSubject: what an error is about survives wrapping, and so does what it is.
func TestSubject(t *testing.T) {
	fault := errors.New("the weights are not finite")
	for _, c := range []struct {
		err                     error
		graph, weights, refused bool
	}{
		{nil, false, false, false},
		{fault, false, false, false},
		{Weights.Of(fault), false, true, false},
		{Graph.Errorf("the graph has %d vertices", 0), true, false, true},
		{fmt.Errorf("g: %w", Graph.Errorf("the graph has no labels")), true, false, true},
		{Errorf("out x: %w", Weights.Of(fault)), false, true, true},
	} {
		if Graph.In(c.err) != c.graph || Weights.In(c.err) != c.weights || Is(c.err) != c.refused {
			t.Errorf("%v: graph %v, weights %v, refused %v", c.err, Graph.In(c.err), Weights.In(c.err), Is(c.err))
		}
	}
}

// TestSetting: a program reads a setting's name, a command's user the flag.
func TestSetting(t *testing.T) {
	const lr Setting = "lr"
	if err := Errorf("%s 0: must be above 0", lr); err.Error() != "lr 0: must be above 0" {
		t.Error(err)
	}
	plain := spell
	defer SpellSettings(plain)
	SpellSettings(func(setting string) string { return "--" + setting })
	if err := Errorf("%s 0: must be above 0", lr); err.Error() != "--lr 0: must be above 0" {
		t.Error(err)
	}
}
