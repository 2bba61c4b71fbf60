package memory

import (
	"runtime/debug"
	"strings"
	"testing"

	"weft/internal/refusal"
)

// What is asked for is held against the limit less what is in use, and garbage does not count.
func TestNeed(t *testing.T) {
	if err := Need(1 << 30); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	const limit, most, block = 256 << 20, 128 << 20, 64 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	if err := Need(most); err != nil {
		t.Errorf("half of the limit: %v", err)
	}
	if err := Need(limit); !refusal.Is(err) || !strings.Contains(err.Error(), "needs 268.4 MB") {
		t.Errorf("the whole limit: %v, want a refusal with the figure", err)
	}
	var held [][]byte
	for range 3 {
		held = append(held, make([]byte, block))
	}
	if err := Need(most); !refusal.Is(err) {
		t.Errorf("beside three quarters of the limit: %v, want a refusal", err)
	}
	held[0][0], held = 1, nil
	if err := Need(most); err != nil {
		t.Errorf("beside garbage: %v", err)
	}
}
