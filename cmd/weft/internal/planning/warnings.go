package planning

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/ui"
	"weft/gnn"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/train/setting"
	"weft/train/task"
)

// Warnings say what the run would not use, and what may harm it.
func (p Planned) Warnings() []string {
	o, first := p.Settings, &p.Workers[0]
	var t rows
	if o.NormalizeFeatures == "row" {
		sums := first.RowSums
		const setting = "--normalize-features row"
		switch {
		case sums.Negative < 0:
			t.say(true, setting+": features are below zero (%.3g), and a sum near zero makes a row of any "+
				"size: leave it out", sums.Negative)
		case sums.Ones > 0 && sums.Others == 0:
			t.say(true, setting+" has no effect: each vertex's features add up to 1 already")
		case sums.Fraction > 0:
			t.say(true, setting+": features are real numbers (%.3g) and not counts, and may be normalised "+
				"already: compare with a run without it", sums.Fraction)
		}
	}
	if s := first.Scales; s != nil {
		t.say(true, "the features%s have scales far apart: the deviation of column %d is %.3g, and that of "+
			"column %d is %.3g; --normalize-features %s brings each to 1, and none leaves them",
			ui.When(s.Type != "", " of "+s.Type), s.Least.Column, s.Least.Deviation, s.Most.Column,
			s.Most.Deviation, setting.Standard)
	}
	if s := first.LargeEdges; s != nil {
		is := fmt.Sprintf("is as large as %.3g (root mean square)", s.Size)
		if s.Dates {
			day := math.Floor(s.Size)
			is = fmt.Sprintf("has dates, as days since 1970: %s is %.0f",
				time.Unix(int64(day)*24*60*60, 0).UTC().Format(time.DateOnly), day)
		}
		t.say(true, "messages of %s read the features of the edges%s as they are, and column %s %s: leave it out with "+
			"--edge-features, or write smaller numbers in its place, as days since the first", o.Model,
			ui.When(s.Type != "", " of "+s.Type), ui.Printable(s.Column), is)
	}
	use := setting.WeightedModels() + " do"
	if o.Program.Path != "" {
		use = "a forward with a parameter edge_weight does"
	}
	t.say(first.UnusedWeights, "the graph has edge weights, which %s does not use; %s", o.Model, use)
	kind, _ := gnn.KindOf(o.Model)
	t.say(first.UnusedEdgeFeatures > 0, "the graph has edge features, which %s does not use%s%s", o.Model,
		ui.When(o.Uses("use-edge-features"), "; --use-edge-features has it use them"),
		ui.When(first.UnusedEdgeFeatures == 1 && kind.EdgeWeights,
			"; if they are weights, give them as such (edge_weight)"))
	t.say(len(first.UnusedRelations) > 0, "no layer aggregates along %s, since nothing that the model "+
		"learns depends on it; import with --reverse-relations to use edges in reverse, too",
		strings.Join(first.UnusedRelations, ", "))
	edge, way := p.unread()
	t.say(p.readsNobody(), "of %s none has %s, so that none reads another vertex and the graph does not "+
		"help; %s", ui.Counted(first.Reading.Training, "training vertex", "training vertices"), edge, way)
	t.say(first.OneClass, data.OneClass)
	t.say(!first.Validates, "there are no validation %s, so the results are those of the last epoch%s",
		map[string]string{task.Vertex: "vertices", task.Link: "edges", task.Edge: "edges"}[o.Task],
		ui.When(o.Patience > 0, fmt.Sprintf(", and --patience %d never runs out", o.Patience)))
	p.idleSlices(&t)
	c := first.Chunks
	t.say(c.Each != c.Wanted, "--chunks %s: %d in each partition and not %d, as the smallest has no more "+
		"vertices", axis.Chunks(0), c.Each, c.Wanted)
	return t
}

// readsNobody reports whether none of the edges along which the model aggregates reaches a training vertex.
func (p Planned) readsNobody() bool {
	var aggregated int64
	for _, w := range p.Workers {
		if w.Reading.Reads {
			return false
		}
		aggregated += w.EdgeColumns.Sum()
	}
	return aggregated > 0 && p.Workers[0].Reading.Training > 0
}

// unread is, if readsNobody, the kind of edge that no training vertex has, and the way out.
func (p Planned) unread() (edge, way string) {
	reading, own := p.Workers[0].Reading, p.Settings.Program.Path != ""
	switch {
	case reading.In && reading.Out:
		return "an edge", ui.When(!own, "--model mlp learns as much") +
			ui.When(own, "a model without edges learns as much")
	case own:
		return ui.When(reading.In, "an in-edge") + ui.When(reading.Out, "an out-edge"),
			"import the edges with --symmetrize, or give the module those of the other direction, too"
	case reading.Out:
		return "an out-edge", "leave --direction out out"
	}
	return "an in-edge", "import the edges with --reverse-relations, or with --symmetrize"
}

// idleSlices warns of layers where some slices of a mesh have no columns.
func (p Planned) idleSlices(t *rows) {
	grid := p.Settings.Mesh
	if grid.Slices == 1 {
		return
	}
	// byLayer has the work of each slice.
	partitions, byLayer := p.Settings.Workers/(grid.Slices*grid.Stages), map[string][]int64{}
	for number, w := range p.Workers {
		for module, n := range w.EdgeColumns {
			if byLayer[module] == nil {
				byLayer[module] = make([]int64, grid.Slices)
			}
			byLayer[module][number%grid.Slices] += n
		}
	}
	byBusy := map[int][]string{} // layers by the number of slices with columns
	for _, module := range slices.Sorted(maps.Keys(byLayer)) {
		busy := 0
		for _, n := range byLayer[module] {
			if n > 0 {
				busy++
			}
		}
		byBusy[busy] = append(byBusy[busy], module)
	}
	for _, busy := range slices.Sorted(maps.Keys(byBusy)) {
		if busy == 0 || busy == grid.Slices { // no slice aggregates there, or all do
			continue
		}
		take := fmt.Sprintf("graph=%d, which divides the vertices", p.Settings.Workers)
		if busy > 1 {
			fewer := mesh.Mesh{Stages: grid.Stages, Partitions: partitions, Slices: busy}
			take = fmt.Sprintf("%s, or %s", setting.Axes(fewer), take)
		}
		t.say(true, "%s: columns for %d of %d slices, and the others aggregate nothing there; take "+
			"--parallel %s",
			strings.Join(byBusy[busy], ", "), busy, grid.Slices, take)
	}
}
