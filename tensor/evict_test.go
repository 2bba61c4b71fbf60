package tensor

import "testing"

// still is a Disk that is not used.
type still struct{ Disk }

// TestUsedSinceChosen: a matrix that was used after it was chosen to leave stays.
func TestUsedSinceChosen(t *testing.T) {
	mem := NewMeter()
	defer mem.Close()
	mem.Offload(still{}, LeastResting)
	m := mem.New(Activations, LeastResting/4, 1)
	mem.BeginTurn(true)
	chosen := mem.offload.next()
	if chosen != m {
		t.Fatal("the matrix is not chosen")
	}
	m.Floats()[0] = 1
	mem.mu.Lock()
	mem.evict(chosen)
	mem.mu.Unlock()
	if m.Rests() || m.Floats()[0] != 1 {
		t.Error("the matrix left")
	}
}
