package refusal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
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
			t.Errorf("%v: graph %v, weights %v, refused %v", c.err, Graph.In(c.err),
				Weights.In(c.err), Is(c.err))
		}
	}
}

// TestIn: the file stands before what is wrong in it, and where nothing is wrong there is no refusal.
func TestIn(t *testing.T) {
	if err := In("g.npz", nil); err != nil {
		t.Errorf("nothing is wrong: %v", err)
	}
	if err := In("g.npz", errors.New("is empty")); !Is(err) || err.Error() != "g.npz: is empty" {
		t.Errorf("%v", err)
	}
}

// TestLongInput: whatever a message quotes, the line is short, and begins and ends as it was written.
func TestLongInput(t *testing.T) {
	for _, unit := range []string{"9", "é"} {
		fault := errors.New(strings.Repeat(unit, 5<<20))
		inner := Errorf("file.pt: the number %w: at most 19 digits are read", fault)
		err := Errorf("--init %w; give another", inner)
		text := err.Error()
		if !errors.Is(err, fault) || len(text) > 2100 || !utf8.ValidString(text) ||
			!strings.HasPrefix(text, "--init file.pt: the number "+unit) ||
			!strings.HasSuffix(text, unit+": at most 19 digits are read; give another") {
			t.Errorf("%d bytes: %.3000s", len(text), text)
		}
	}
	short := strings.Repeat("x", 2000)
	if err := Errorf("%s", short); err.Error() != short {
		t.Errorf("%d bytes became %d: %v", len(short), len(err.Error()), err)
	}
}
