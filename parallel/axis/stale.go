package axis

import "weft/internal/suggest"

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

// StaleNames are the names of the choices.
var StaleNames = []string{DropScale: "drop-scale", Drop: "drop", Keep: "keep"}

func (s Stale) String() string { return StaleNames[s] }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Stale) UnmarshalText(text []byte) error { return suggest.Parse(s, text, StaleNames) }
