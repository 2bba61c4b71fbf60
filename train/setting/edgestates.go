package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// EdgeStates says which states of edges a program keeps: every n-th (program.Program.Keeping). Its text form
// is that number, "none" or "auto".
type EdgeStates int

const (
	// AutoEdgeStates keeps as many as the memory limit has room for, and all without a limit.
	AutoEdgeStates EdgeStates = 0
	// AllEdgeStates keeps all.
	AllEdgeStates EdgeStates = 1
	// NoEdgeStates keeps none: layers compute each again.
	NoEdgeStates EdgeStates = -1
)

const (
	noStates  = "none"
	mostEvery = 1 << 10 // the largest n of "every n-th"
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

// Every is the number for program.Program.Keeping. For AutoEdgeStates it is that of AllEdgeStates.
func (e EdgeStates) Every() int {
	switch e {
	case AutoEdgeStates:
		return int(AllEdgeStates)
	case NoEdgeStates:
		return 0
	}
	return int(e)
}

// MostEdgeStates returns the first of EdgeStates, without the work for the others.
func (r *Resolved) MostEdgeStates() EdgeStates {
	if model := r.Program.Program; r.KeepEdgeStates != AutoEdgeStates || model == nil || model.States() == 0 {
		return r.KeepEdgeStates
	}
	return AllEdgeStates
}

// EdgeStates lists which states of edges a run may keep. It takes the first that meets its memory limit. A
// pipeline keeps all: layers that compute states again read parameters of earlier layers, which other stages
// have.
func (r *Resolved) EdgeStates() (list []EdgeStates) {
	if most := r.MostEdgeStates(); most != AllEdgeStates || r.KeepEdgeStates == most || r.Mesh.Stages > 1 {
		return []EdgeStates{most}
	}
	for _, every := range r.Program.Keepings() {
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
