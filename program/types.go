package program

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// RowKind says what a value has rows for.
type RowKind uint8

// The kinds of rows.
const (
	// parameters, constants, values that depend on these alone, and sums over all vertices
	None     RowKind = iota
	Vertices         // every vertex
	Edges            // every edge of a set
)

// Type describes a value before the program runs.
type Type struct {
	Rows     RowKind
	TypeName string // the vertex type, or the relation; empty: the only one
	Loops    string // the set of edges; empty: stored
	Shape    []int  // of one row; empty: a number
}

// String describes the type in messages.
func (t Type) String() string {
	text := []string{"a tensor", "rows of vertices", "rows of edges"}[t.Rows]
	if t.TypeName != "" {
		text += fmt.Sprintf(" of %q", t.TypeName)
	}
	if t.Rows == Edges {
		loops := map[string]string{removed: " (no loops)", one: " (one loop each)", added: " (added loops)"}
		text += loops[t.Loops]
	}
	return fmt.Sprintf("%s of shape %v", text, t.Shape)
}

// sameRows reports whether both have the same rows.
func (t Type) sameRows(x Type) bool {
	return t.Rows == x.Rows && t.TypeName == x.TypeName && t.Loops == x.Loops
}

// equals reports whether the values have the same rows and shapes.
func (t Type) equals(x Type) bool { return t.sameRows(x) && slices.Equal(t.Shape, x.Shape) }

func (t Type) with(shape ...int) Type {
	t.Shape = shape
	return t
}

func (t Type) size() int { return size(t.Shape) }

// The sets of edges. They differ in the self loops.
const (
	stored  = ""        // as the graph has them
	removed = "removed" // left out
	one     = "one"     // left out, and one for each vertex
	added   = "added"   // stored, and one more for each vertex
	// Sets that only rewriting makes.
	onlyLoops = "only" // the loops that the graph has, and no other edges
	lastLoops = "last" // the last loop of each vertex, and no other edges
)

// withLoops has the sets of edges that can get a loop for each vertex, with the sets that they become.
var withLoops = map[string]string{stored: added, removed: one}

// infer returns the type of operation i, whose operands' types are known.
func (p *Program) infer(i int) (Type, error) {
	o := &p.Operations[i]
	k, known := kinds[o.Op]
	if !known {
		return Type{}, errors.New("no operation has this name")
	}
	if n := len(o.In); n < k.least || n > k.most {
		return Type{}, fmt.Errorf("reads %d values, and it takes %s", n, k.operands())
	}
	var in []Type
	for _, v := range o.In {
		if v < 0 || v >= i {
			return Type{}, fmt.Errorf("reads value %d, which is none before it", v)
		}
		in = append(in, p.types[v])
	}
	if err := o.checkAttributes(strings.Fields(k.attributes)); err != nil {
		return Type{}, err
	}
	return k.infer(p, o, in)
}
