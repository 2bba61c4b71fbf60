package chunked

import (
	"fmt"
	"slices"
)

// Stale says how to treat gradients between chunks. The backward pass computes the chunks in reverse order.
// So a chunk gets the gradients from later chunks in time. Gradients from earlier chunks come too late.
type Stale uint8

const (
	// DropScale drops late gradients, and doubles those that come in time. The mean over all orders of the
	// chunks is then the right gradient of an edge between two chunks.
	DropScale Stale = iota
	// Drop drops late gradients.
	Drop
	// Keep uses the late gradients of the previous epoch instead.
	Keep
)

// StaleNames are the names of the choices, as settings spell them.
var StaleNames = []string{DropScale: "drop-scale", Drop: "drop", Keep: "keep"}

// ParseStale returns the choice of that name, one of StaleNames.
func ParseStale(name string) (Stale, error) {
	i := slices.Index(StaleNames, name)
	if i < 0 {
		return DropScale, fmt.Errorf("unknown treatment of stale gradients %q", name)
	}
	return Stale(i), nil
}
