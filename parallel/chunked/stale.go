package chunked

import (
	"fmt"
	"slices"
)

// Stale says what becomes of gradients between chunks. Backward the chunks come in reverse order, so that a
// chunk has the gradients of its rows from those that were processed after it. From those before it they
// would come too late.
type Stale uint8

const (
	// DropScale leaves out what comes too late, and doubles what comes from other chunks in time: over all
	// orders the mean gradient of an edge between two chunks is then right.
	DropScale Stale = iota
	// Drop leaves out what comes too late.
	Drop
	// Keep takes what came too late in the epoch before in its place.
	Keep
)

// StaleNames are the choices in words.
var StaleNames = []string{DropScale: "drop-scale", Drop: "drop", Keep: "keep"}

// ParseStale is the choice of that name, one of StaleNames.
func ParseStale(name string) (Stale, error) {
	i := slices.Index(StaleNames, name)
	if i < 0 {
		return DropScale, fmt.Errorf("unknown treatment of stale gradients %q", name)
	}
	return Stale(i), nil
}
