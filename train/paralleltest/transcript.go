package paralleltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// The phases of a transcript.
const (
	Forward  = "forward"
	Backward = "backward"
)

// Transcript is what a worker does in a forward and a backward pass. Lanes run beside each other; each has a
// fixed order. Any goroutine may write to it.
type Transcript struct {
	mu    sync.Mutex
	phase string
	lanes map[[2]string][]entry // by phase and lane
}

type entry struct {
	event string
	times int // number of repetitions
}

// NewTranscript is an empty transcript. It is in the forward pass until Begin.
func NewTranscript() *Transcript {
	return &Transcript{phase: Forward, lanes: map[[2]string][]entry{}}
}

// Begin begins a phase.
func (s *Transcript) Begin(phase string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = phase
}

// Add adds an event to a lane.
func (s *Transcript) Add(lane, event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := [2]string{s.phase, lane}
	s.lanes[at] = append(s.lanes[at], entry{event, 1})
}

// Repeat is Add, but writes equal events in a row once.
func (s *Transcript) Repeat(lane, event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := [2]string{s.phase, lane}
	if list := s.lanes[at]; len(list) > 0 && list[len(list)-1].event == event {
		list[len(list)-1].times++
		return
	}
	s.lanes[at] = append(s.lanes[at], entry{event, 1})
}

// Lanes returns the events of a phase, one line for each lane that has any.
func (s *Transcript) Lanes(phase string, lanes ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, lane := range lanes {
		var events []string
		for _, e := range s.lanes[[2]string{phase, lane}] {
			if e.times > 1 {
				e.event += fmt.Sprintf(" ×%d", e.times)
			}
			events = append(events, e.event)
		}
		if len(events) > 0 {
			fmt.Fprintf(&out, "  %-17s  %s\n", lane, strings.Join(events, ", "))
		}
	}
	return out.String()
}

// CompareTranscript compares a text with testdata/transcripts/NAME.txt. update writes the file anew.
func CompareTranscript(t *testing.T, name, got string, update bool) {
	t.Helper()
	file := filepath.Join("testdata", "transcripts", name+".txt")
	if update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o666))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}
