package planning

import (
	"fmt"
	"slices"

	"weft/cmd/weft/internal/ui"
	"weft/kernel"
	"weft/train/plan"
	"weft/train/worker"
)

// What kernels read and write, and what workers send, in an epoch of a plan.

// balance says how much each worker aggregates.
func (p Planned) balance(t *rows) {
	const most = 16 // most workers whose numbers are on one line
	largest := slices.Max(p.EdgeColumns)
	by := ""
	for _, n := range p.EdgeColumns {
		by += fmt.Sprintf(" %.3g", mega(n))
	}
	t.say(len(p.EdgeColumns) > 1 && largest > 0, "edges × columns aggregated an epoch: %.3g million on the "+
		"worker with most, %.2f times the mean%s", mega(largest), worker.Imbalance(p.EdgeColumns),
		ui.When(len(p.EdgeColumns) <= most, "; by worker"+by))
}

// passes says how many bytes kernels read and write, by layer. Equal layers in a row share a line.
func (p Planned) passes(t *rows) {
	alike(p.Work(), func(layers string, w *plan.LayerWork) {
		f, b := &w.Forward, &w.Backward
		t.say(true, "%s kernels stream %.1f + %.1f MB (forward + backward), of which products and sums need "+
			"%.1f + %.1f MB, and gather %.1f + %.1f MB; products have %.3g + %.3g GFLOP", layers,
			mega(f.Streamed), mega(b.Streamed), mega(f.Least), mega(b.Least), mega(f.Gathered),
			mega(b.Gathered), f.Operations/giga, b.Operations/giga)
	})
}

// alike calls say for the work of a plan's layers. Equal layers in a row share one call, with their numbers.
func alike(all []plan.LayerWork, say func(layers string, w *plan.LayerWork)) {
	layers := all[:len(all)-1]
	for first := 0; first < len(layers); {
		equal := 1
		for first+equal < len(layers) && layers[first+equal] == layers[first] {
			equal++
		}
		names := fmt.Sprintf("layer %d:", first)
		if equal > 1 {
			names = fmt.Sprintf("layers %d–%d, each:", first, first+equal-1)
		}
		say(names, &layers[first])
		first += equal
	}
}

const giga = 1e9

// layerBytes is plan.Plan.Work for programs.
type layerBytes struct {
	Layer    int         `json:"layer"` // −1: outside all layers
	Forward  passedBytes `json:"forward,omitzero"`
	Backward passedBytes `json:"backward,omitzero"`
	Rest     passedBytes `json:"rest,omitzero"`
}

type passedBytes struct {
	Streamed int `json:"streamed"`
	Least    int `json:"least"`
	Written  int `json:"written"`
	Gathered int `json:"gathered"`
	// Operations are the floating-point operations of products
	Operations float64 `json:"operations,omitempty"`
}

// bytesOf is work in a form for programs.
func bytesOf(w kernel.Work) passedBytes {
	return passedBytes{w.Streamed, w.Least, w.Written, w.Gathered, w.Operations}
}

// layerBytes are the bytes that the kernels of each layer move.
func (p Planned) layerBytes() (list []layerBytes) {
	all := p.Work()
	for layer, b := range all {
		if layer == len(all)-1 {
			layer = -1
		}
		list = append(list,
			layerBytes{layer, bytesOf(b.Forward), bytesOf(b.Backward), bytesOf(b.Other)})
	}
	return list
}

// ofEdges says how many columns of edges pass between stages.
func ofEdges(c *plan.Chunks) string {
	if c.EdgeColumns == 0 {
		return ""
	}
	return fmt.Sprintf(", and 2·E·4 of %d", c.EdgeColumns)
}

// moved says how many bytes workers send to move rows and, between stages, how many GNNPipe's formula gives.
func (p Planned) moved(t *rows) {
	all, c := worker.SumOf(p.Sent), &p.Workers[0].Chunks
	for _, row := range []struct {
		traffic func(*worker.Communication) worker.Traffic
		what    string
	}{
		{halo, "rows and gradients between partitions"},
		{layout, fmt.Sprintf("%d all-to-alls between rows and slices", all.Layout.Messages)},
		{stage, fmt.Sprintf("activations and gradients between stages (2·V·4 bytes of %d columns%s at all "+
			"cuts: %.1f MB)", c.Columns, ofEdges(c), mega(c.Bytes))},
		{links, "embeddings of the ends of training and negative edges, and their gradients (in the last " +
			"epoch: negative edges are drawn anew in each)"},
	} {
		sum := row.traffic(&all).Bytes
		t.say(sum > 0, "%s: %.1f MB an epoch, %.1f MB from the worker that sends most", row.what, mega(sum),
			mega(slices.Max(p.sentBytes(row.traffic))))
	}
}

// The kinds of rows that workers send.
func halo(c *worker.Communication) worker.Traffic { return c.Halo }

func layout(c *worker.Communication) worker.Traffic { return c.Layout }

func stage(c *worker.Communication) worker.Traffic { return c.Stage }

func links(c *worker.Communication) worker.Traffic { return c.Links }

// sentBytes returns how many bytes of one kind of traffic each worker sends.
func (p Planned) sentBytes(traffic func(*worker.Communication) worker.Traffic) (bytes []int64) {
	for _, c := range p.Sent {
		bytes = append(bytes, traffic(&c).Bytes)
	}
	return bytes
}
