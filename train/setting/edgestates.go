package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// EdgeStates says which states of edges a program keeps (program.Program.Keeping): every so many-th. Its text
// form is the number, "none" or "auto".
type EdgeStates int

const (
	// AutoEdgeStates are as many as the memory limit has room for: all without one.
	AutoEdgeStates EdgeStates = 0
	// AllEdgeStates keeps each.
	AllEdgeStates EdgeStates = 1
	// NoEdgeStates has layers compute each again.
	NoEdgeStates EdgeStates = -1
)

const (
	noStates  = "none"
	mostEvery = 1 << 10 // of which EdgeStates may keep one
)

// UnmarshalText implements encoding.TextUnmarshaler. It reads "2", "none" or "auto".
func (e *EdgeStates) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case Auto:
		*e = AutoEdgeStates
		return nil
	case noStates:
		*e = NoEdgeStates
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > mostEvery {
		return fmt.Errorf("must be a whole number from 1 to %d, %s or %s", mostEvery, noStates, Auto)
	}
	*e = EdgeStates(n)
	return nil
}

func (e EdgeStates) String() string {
	switch e {
	case AutoEdgeStates:
		return Auto
	case NoEdgeStates:
		return noStates
	}
	return strconv.Itoa(int(e))
}

// Every is what program.Program.Keeping takes; of AutoEdgeStates that of all.
func (e EdgeStates) Every() int {
	switch e {
	case AutoEdgeStates:
		return int(AllEdgeStates)
	case NoEdgeStates:
		return 0
	}
	return int(e)
}

// EdgeStates lists which states of edges a run may keep. From several it takes the first that meets its
// memory limit. Those of a pipeline are all: layers that compute states again read parameters of layers
// before them, which other stages have.
func (r *Resolved) EdgeStates() (list []EdgeStates) {
	of := r.Program.Program
	switch {
	case r.KeepEdgeStates != AutoEdgeStates || of == nil || of.States() == 0:
		return []EdgeStates{r.KeepEdgeStates}
	case r.Mesh.Stages > 1:
		return []EdgeStates{AllEdgeStates}
	}
	for _, every := range of.Keepings() {
		kept := EdgeStates(every)
		if every == 0 {
			kept = NoEdgeStates
		}
		list = append(list, kept)
	}
	return list
}

// Keeping returns the settings with other states of edges kept.
func (r *Resolved) Keeping(states EdgeStates) *Resolved {
	with := *r
	with.KeepEdgeStates = states
	return &with
}
