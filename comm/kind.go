package comm

// Kind is a kind of traffic. Traffic is counted by kind, and messages of different kinds never match each
// other.
type Kind uint8

// The kinds of traffic.
const (
	Setup        Kind = iota // before the first epoch: sizes, lists of halo vertices, groups
	Halo                     // vertex rows between graph partitions
	HaloGradient             // their gradients
	ToSlices                 // from the row layout into the slice layout
	ToRows                   // from the slice layout into the row layout
	Stage                    // rows and gradients between pipeline stages
	Gradient                 // gradients of the weights
	Links                    // rows at the ends of scored edges in link prediction, and their gradients
	Statistics               // losses, norms, counts
	Kinds                    // the number of kinds
)

var kindNames = [Kinds]struct{ short, what string }{
	Setup:        {"setup", "set-up data"},
	Halo:         {"halo", "halo rows"},
	HaloGradient: {"halo-gradient", "halo gradients"},
	ToSlices:     {"to-slices", "rows for slices"},
	ToRows:       {"to-rows", "slices for rows"},
	Stage:        {"stage", "stage boundaries"},
	Gradient:     {"gradient", "weight gradients"},
	Links:        {"links", "rows at the ends of scored edges"},
	Statistics:   {"statistics", "statistics"},
}

// String is the kind's name in one word.
func (k Kind) String() string { return kindNames[k].short }

// KindOf is the kind of messages with this tag, which a Comm sends through its transport, in any group.
func KindOf(tag int) Kind { return Kind(tag % int(Kinds)) }

// ofRows reports whether layers send this kind: rows of vertices, slices of them, or their gradients.
func (k Kind) ofRows() bool { return k >= Halo && k <= ToRows }
