package engine

import (
	"math"

	"weft/tensor"
)

// worst has a plan take at least what a training pass does in any order of the chunks. A chunk takes most
// where it comes last forward, and so first backward: what all others keep is there then. So in a plan each
// chunk's pass begins with as much memory as that, and a message of a chunk takes as much as the largest
// chunk's. What the chunks keep is known from the epoch before.
type worst struct {
	*Pipeline
	kept   int64 // bytes at the end of the last forward pass, with what all chunks keep
	least  int64 // of these, what the forward pass of the chunk added that adds least
	level  int64 // bytes at the beginning of this backward pass
	before int64 // bytes at the beginning of this chunk's pass
	held   *tensor.Matrix
}

// newWorst is nil where no order makes a difference: outside of plans, and where the order is the plan's.
func newWorst(p *Pipeline) *worst {
	if !p.Team.Planning() || p.Stage.Fixed || len(p.passes) == 1 {
		return nil
	}
	return &worst{Pipeline: p, least: math.MaxInt64 / 2}
}

// fill has a chunk's pass begin with so many bytes.
func (w *worst) fill(bytes int64) {
	w.held.Release()
	short := max(0, bytes-w.Team.Memory.LiveTensors())
	w.held = w.Team.Memory.New(tensor.Buffers, 1, int(short)/tensor.Float32.Size())
}

// beginForward begins the forward pass of a chunk whose state has come.
func (w *worst) beginForward() {
	if w == nil {
		return
	}
	w.fill(w.kept - w.least)
	w.before = w.Team.Memory.LiveTensors()
}

// endForward ends it. With recomputation it adds nothing to the state that came.
func (w *worst) endForward() {
	if w == nil {
		return
	}
	w.least = min(w.least, w.Team.Memory.LiveTensors()-w.before)
	if w.Stage.Recompute {
		w.least = 0
	}
}

// turn ends the forward passes of all chunks.
func (w *worst) turn() {
	if w == nil {
		return
	}
	w.fill(0)
	w.kept, w.level = w.Team.Memory.LiveTensors(), 0
}

// beginBackward begins the backward pass of a chunk.
func (w *worst) beginBackward() {
	if w == nil {
		return
	}
	w.level = max(w.level, w.Team.Memory.LiveTensors())
	w.fill(w.level)
}

// end ends the training pass.
func (w *worst) end() {
	if w != nil {
		w.held.Release()
	}
}

// padding is what a message of a chunk lacks of the largest chunk's.
func (w *worst) padding(rows, columns int) *tensor.Matrix {
	if w == nil {
		return nil
	}
	most := 0
	for _, c := range w.passes {
		most = max(most, c.Rows().Here)
	}
	return w.Team.Memory.New(tensor.Gradients, most-rows, columns)
}
