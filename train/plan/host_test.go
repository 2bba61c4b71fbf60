package plan

import (
	"testing"

	"weft/internal/assert"
	"weft/parallel/turns"
	"weft/train/worker"
)

// TestHostBytes: beside a card the host's memory has what rests, messages on their way, and those that wait.
func TestHostBytes(t *testing.T) {
	w := Worker{DiskBytes: 1, Messages: 10, Reserve: turns.Reserve{Bytes: 100}}
	p := &Plan{Cards: &worker.Cards{}, Workers: []Worker{w, w}}
	assert.Equal(t, []int64{222, 111}, []int64{p.HostBytes(0), p.HostBytes(1)})
	p.Cards = nil
	assert.Equal(t, int64(0), p.HostBytes(0))
}
