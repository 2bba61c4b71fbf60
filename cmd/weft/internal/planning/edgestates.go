package planning

import (
	"fmt"

	"weft/cmd/weft/internal/ui"
	"weft/train/setting"
)

// EdgeStates says which states of edges a program keeps.
type EdgeStates struct {
	Every int `json:"every"` // of so many states that depend on each other one is kept; 0: none
	Kept  int `json:"kept"`
	Total int `json:"of"`

	limit setting.Bytes // the memory limit that has no room for more; 0: none
}

// EdgeStates says which states of edges are kept; nil: no states pass through layers.
func (p Planned) EdgeStates() *EdgeStates {
	program := p.Settings.Program.Program
	if program == nil || program.States() == 0 {
		return nil
	}
	s := &EdgeStates{Every: p.Plan.EdgeStates.Every(), Total: program.States()}
	s.Kept = program.Keeping(s.Every).States()
	if s.Kept < s.Total && p.Settings.KeepEdgeStates == setting.AutoEdgeStates {
		s.limit = p.Settings.MemoryLimit
	}
	return s
}

// String says how many states are kept.
func (s *EdgeStates) String() string {
	const what = "states of edges that pass through layers"
	because := ui.When(s.limit > 0, fmt.Sprintf(", as --memory-limit %s needs it", s.limit))
	switch s.Kept {
	case s.Total:
		return fmt.Sprintf("all %d %s are kept", s.Total, what)
	case 0:
		return fmt.Sprintf("none of %d %s is kept: layers compute them again%s", s.Total, what, because)
	}
	return fmt.Sprintf("%d of %d %s are kept, and those between computed again from the last that is%s", s.Kept,
		s.Total, what, because)
}
