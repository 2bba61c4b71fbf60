package planning

import (
	"fmt"
	"io"

	"weft/cmd/weft/internal/ui"
	"weft/kernel/machine"
	"weft/tensor"
	"weft/train"
	"weft/train/plan"
	"weft/train/planner"
)

// bounds are the least times of the layers of a mesh, on machines like this one.
type bounds struct {
	Parallel string        `json:"parallel"` // the mesh
	Epoch    float64       `json:"epoch_seconds"`
	Rates    machine.Rates `json:"rates"` // of all threads on a machine
	Layers   []layerBound  `json:"layers"`

	work  []plan.LayerWork
	on    float64 // how many machines the mesh is on
	short bool    // products are of bfloat16
}

// layerBound is the least time of a layer, in seconds.
type layerBound struct {
	Layer    int           `json:"layer"`
	Forward  machine.Bound `json:"forward"`
	Backward machine.Bound `json:"backward"`
	Bound    string        `json:"bound"` // "compute" or "memory", whichever takes longer
}

// boundsOf finds the bounds of a mesh. It measures this machine's rates once.
func (p *meshPlanner) boundsOf(m *planner.Mesh) (*bounds, error) {
	sharers := max(1, min(p.Machine.Sharers, m.Settings.Workers))
	threads := sharers * (&train.Job{CoreSharers: p.Machine.Sharers}).Threads(m.Settings)
	key := fmt.Appendf(nil, "rates of a machine with %d threads", threads)
	possible := func(r machine.Rates) bool {
		return min(r.Read, r.Write, r.Gather, r.Lines, r.Flops, r.BFloat16Flops) > 0
	}
	rates, _, err := machine.Kept(p.Cache, key, possible, func() (machine.Rates, error) {
		p.Shown.Show("measuring the rates of this machine", 0, 0)
		defer p.Shown.Erase()
		return machine.Measure(threads, machine.Beyond, findMemory("").usable())
	})
	if err != nil {
		return nil, fmt.Errorf("the rates of this machine: %w", err)
	}
	b := &bounds{
		Parallel: m.Parallel, Epoch: m.Times.Epoch, Rates: rates, work: m.Plan.Work(),
		short: m.Settings.Storage == tensor.BFloat16, on: float64(m.Settings.Workers) / float64(sharers),
	}
	b.find()
	return b, nil
}

// find finds the bound of each layer.
func (b *bounds) find() {
	for layer := range b.work[:len(b.work)-1] {
		found := b.bound(&b.work[layer])
		found.Layer = layer
		b.Layers = append(b.Layers, found)
	}
}

// bound returns the bound of a layer with the work w.
func (b *bounds) bound(w *plan.LayerWork) layerBound {
	each := func(share machine.Bound) machine.Bound {
		return machine.Bound{
			Products: share.Products / b.on, Gathered: share.Gathered / b.on, Streamed: share.Streamed / b.on,
		}
	}
	forward, backward := w.Bounds(&b.Rates, b.short)
	l := layerBound{Forward: each(forward), Backward: each(backward)}
	l.Bound = l.Forward.Plus(l.Backward).By()
	return l
}

// print says which they are.
func (b *bounds) print(out io.Writer) {
	sum := 0.0
	for _, l := range b.Layers {
		sum += l.Forward.Seconds() + l.Backward.Seconds()
	}
	flops := b.Rates.Flops
	if b.short {
		flops = b.Rates.BFloat16Flops
	}
	took := func(seconds float64) string { return ui.Duration(ui.Seconds(seconds)) }
	ui.Note(out, fmt.Sprintf("this machine reads %.3g GB/s in order and %.3g of rows from all over its memory, "+
		"and multiplies at %.3g GFLOP/s (%s)", b.Rates.Read/giga, b.Rates.Gather/giga, flops/giga,
		ui.Counted(b.Rates.Threads, "thread", "threads")))
	alike(b.work, func(layers string, w *plan.LayerWork) {
		l, f, g := b.bound(w), &w.Forward, &w.Backward
		ui.Note(out, fmt.Sprintf("%s at least %s + %s (forward + backward), bound by %s: products of %.3g + "+
			"%.3g GFLOP, %.1f + %.1f MB in order, %.1f + %.1f MB gathered", layers, took(l.Forward.Seconds()),
			took(l.Backward.Seconds()), l.Bound, f.Operations/giga, g.Operations/giga, mega(f.Least),
			mega(g.Least), mega(f.Gathered), mega(g.Gathered)))
	})
	ui.Note(out, fmt.Sprintf("all layers of %s take at least %s, and its epoch is predicted to take %.3g times as long",
		b.Parallel, took(sum), b.Epoch/sum))
}
