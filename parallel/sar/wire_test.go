package sar

import (
	"testing"

	"weft/comm"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// TestBuffersOfGradients: messages of gradients are received in Prefetch+1 buffers, or in one for each of
// fewer messages. Each has room for the largest message.
func TestBuffersOfGradients(t *testing.T) {
	memory := tensor.NewMeter()
	defer memory.Close()
	call := &Call{Edges: &edges.Edges{Needed: []*edges.Message{{}, {}, {}}, MostOut: 5}}
	sent := Transfer{Sent: exchange.Form{{Count: 7, Element: tensor.Float32}}}
	for prefetch, want := range []int{1, 2, 3, 3} {
		w := newWire(kernel.NewTeam(1, memory), comm.Alone(), prefetch)
		l := w.forGradients(call, sent)
		if len(l.buffers) != want {
			t.Errorf("a prefetch of %d: %d buffers, want %d", prefetch, len(l.buffers), want)
		}
		for _, b := range l.buffers {
			if b.Len() != 5*7 {
				t.Errorf("a buffer of %d numbers, want 35", b.Len())
			}
		}
		l.release()
	}
}
