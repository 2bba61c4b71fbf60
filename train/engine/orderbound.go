package engine

import (
	"math"

	"weft/parallel/axis"
	"weft/tensor"
)

// orderBound makes a plan take at least the memory of a training pass in any order of the chunks. A chunk
// takes most memory as the last one forward, which is the first one backward, because the memory that all
// other chunks keep is then in use. So in a plan every chunk's pass begins with that much memory, and every
// message is as large as the largest chunk's. The plan's previous epoch tells how much the chunks keep.
type orderBound struct {
	*Pipeline
	kept   int64 // bytes at the end of the last forward pass, with what all chunks keep
	least  int64 // the fewest bytes that one chunk's forward pass added
	begun  int64 // bytes at the beginning of this backward pass
	before int64 // bytes at the beginning of this chunk's pass
	filler *tensor.Matrix
}

// newOrderBound is nil if the order makes no difference, or if the run's own order is wanted.
func newOrderBound(p *Pipeline) *orderBound {
	if !p.AnyOrder || p.ChunkOrder == axis.Fixed || len(p.chunks) == 1 {
		return nil
	}
	return &orderBound{Pipeline: p, least: math.MaxInt64 / 2}
}

// fill allocates memory until a chunk's pass begins with so many bytes.
func (w *orderBound) fill(bytes int64) {
	w.filler.Release()
	short := max(0, bytes-w.Team.Memory.LiveTensors())
	w.filler = w.Team.Memory.New(tensor.Buffers, 1, int(short)/tensor.Float32.Size())
}

// beginForward begins the forward pass of a chunk, whose state has been received.
func (w *orderBound) beginForward() {
	if w == nil {
		return
	}
	w.fill(w.kept - w.least)
	w.before = w.Team.Memory.LiveTensors()
}

// endForward ends a chunk's forward pass. With recomputation the pass keeps nothing but the received state.
func (w *orderBound) endForward() {
	if w == nil {
		return
	}
	w.least = min(w.least, w.Team.Memory.LiveTensors()-w.before)
	if w.Recompute {
		w.least = 0
	}
}

// endForwards ends the forward passes of all chunks.
func (w *orderBound) endForwards() {
	if w == nil {
		return
	}
	w.fill(0)
	w.kept, w.begun = w.Team.Memory.LiveTensors(), 0
}

// beginBackward begins the backward pass of a chunk.
func (w *orderBound) beginBackward() {
	if w == nil {
		return
	}
	w.begun = max(w.begun, w.Team.Memory.LiveTensors())
	w.fill(w.begun)
}

// end ends the training pass.
func (w *orderBound) end() {
	if w != nil {
		w.filler.Release()
	}
}

// padding is memory that fills up a chunk's message to one with the most rows.
func (w *orderBound) padding(message *tensor.Matrix, most int) *tensor.Matrix {
	if w == nil {
		return nil
	}
	return w.Team.Memory.NewElement(tensor.Gradients, message.Element, most-message.Rows, message.Cols)
}
