package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/refusal"
	"weft/train/setting"
	"weft/train/task"
)

// checkNewStore refuses a path, for a new store, where something exists.
func checkNewStore(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refusal.Errorf("%s: %w; choose a shorter one", path, syscall.ENAMETOOLONG)
	case err != nil:
		return refusal.Errorf("%s: a store is a folder, and this is something else: %w", path, err)
	case len(entries) > 0:
		return refusal.Errorf("%s: the folder is not empty; remove it or name another", path)
	}
	return nil
}

// describeStore says, about an imported store, what to be warned of, and what it holds.
func describeStore(store string, w *streamed.Written, took time.Duration, warnings, out io.Writer) error {
	leaks, err := leaksOf(store)
	if err != nil {
		return err
	}
	if w.Doubt != "" {
		leaks = append(leaks, w.Doubt)
	}
	for _, warning := range slices.Concat(w.Warnings, leaks) {
		fmt.Fprintln(warnings, "weft: warning: "+warning)
	}
	columnTable(out, w)
	for _, line := range w.Notes {
		ui.Note(out, line)
	}
	ui.Note(out, storeLine(store, w, took))
	return nil
}

// storeLine says in one line what a new store holds.
func storeLine(store string, w *streamed.Written, took time.Duration) string {
	features := "no features"
	if w.Types[0].Features.Columns > 0 {
		features = ui.Counted(w.Types[0].Features.Columns, "feature", "features")
		if w.Types[0].Features.Sparse() {
			features += " (sparse)"
		}
	}
	splits := "no split"
	if n := len(w.Types[0].Splits); n > 0 {
		s := w.Types[0].Splits[0]
		splits = fmt.Sprintf("split %s/%s/%s", ui.Count(len(s.Train)), ui.Count(len(s.Val)),
			ui.Count(len(s.Test)))
		if n > 1 {
			splits = fmt.Sprintf("%d splits, the first %s", n, strings.TrimPrefix(splits, "split "))
		}
	}
	var divided [3]int // edges of the parts of a split
	for i := range w.Relations {
		if s := w.Relations[i].EdgeSplit; s != nil {
			for part := range divided {
				divided[part] += s.Count(part)
			}
		}
	}
	if divided != [3]int{} {
		splits = fmt.Sprintf("split of edges %s/%s/%s", ui.Count(divided[0]),
			ui.Count(divided[1]), ui.Count(divided[2]))
	}
	edges := ui.Counted(w.Edges, "edge", "edges")
	if w.Weighted {
		edges += " (weighted)"
	}
	if l := w.Labelled; l.HasLabels() {
		edges += fmt.Sprintf(" (%s labelled, %s", ui.Count(w.LabelledEdges), learned(&l.Labels))
		if len(l.Splits) > 0 {
			s := l.Splits[0]
			edges += fmt.Sprintf(", split %s/%s/%s", ui.Count(len(s.Train)), ui.Count(len(s.Val)),
				ui.Count(len(s.Test)))
		} else {
			edges += ", no split"
		}
		edges += ")"
	}
	if n := len(w.Relations); n > 1 {
		edges += fmt.Sprintf(" of %s relations", ui.Count(n))
	}
	vertices := ui.Counted(w.Vertices(), "vertex", "vertices")
	if n := len(w.Types); n > 1 {
		vertices += fmt.Sprintf(" of %s types", ui.Count(n))
	}
	if w.Graphs > 0 {
		vertices += fmt.Sprintf(" of %s", ui.Counted(w.Graphs, "graph", "graphs"))
	}
	labels := ui.Counted(w.Types[0].Labels.Classes, "class", "classes")
	if w.Types[0].Labels.Continuous() {
		labels = ValuesToPredict(w.Types[0].Labels.Columns)
	}
	learns := ", " + labels + ", " + splits
	if w.Labelled.HasLabels() && !w.Types[0].Labels.There() { // labels and split are those of the edges
		learns = ""
	}
	return fmt.Sprintf("%s: %s, %s, %s%s, in %s", store, vertices, edges, features, learns, ui.Duration(took))
}

// ValuesToPredict says how many values each vertex has to predict.
func ValuesToPredict(columns int) string {
	return ui.Counted(columns, "value", "values") + " to predict"
}

// nextLine is the command that trains on a new store with a suitable model, or says what the store lacks.
func nextLine(store string, w *streamed.Written) string {
	g, o := w.Graph, setting.Defaults()
	lacks := func(t graph.VertexType) bool { return t.Features.Columns == 0 }
	if l := w.Labelled; l.HasLabels() && !g.Types[0].Labels.There() {
		return fmt.Sprintf("next: weft train %s --edge-label %s", refusal.ShellWord(store),
			refusal.ShellWord(l.Labels.Column)) + ui.When(len(l.Splits) == 0, " --split "+DefaultSplit) +
			ui.When(slices.ContainsFunc(g.Types, lacks), " --node-embedding 64")
	}
	if g.Typed() && slices.ContainsFunc(g.Types, lacks) {
		o.Model = "rgcn" // it learns embeddings for types without features
	}
	divided := 0 // relations
	for i := range g.Relations {
		if g.Relations[i].EdgeSplit != nil {
			divided++
		}
	}
	learns := ""
	if divided > 0 {
		o.Task, learns = task.Link, " --task "+task.Link
	}
	if divided > 1 {
		learns += " --decoder " + task.DistMult // it distinguishes the relations
	}
	if len(g.Types[0].Splits) > 0 && len(g.Types[0].Splits[0].Train) == 0 {
		return fmt.Sprintf("no vertex trains: a model of another store is measured here, by weft train "+
			"STORE --validate %s or weft evaluate RUN %[1]s", refusal.ShellWord(store))
	}
	drawn := g.Copy()
	if o.Task == task.Vertex && len(g.Types[0].Splits) == 0 &&
		g.Types[0].Labels.Classes+g.Types[0].Labels.Columns > 0 {
		learns, drawn.Types[0].Splits = " --split "+DefaultSplit, []graph.Split{
			{Train: []int64{0}},
		} // as it draws
	}
	r, err := o.Resolve()
	if err == nil {
		err = r.CheckGraph(drawn)
	}
	if err != nil {
		return fmt.Sprintf("before training: %v", err)
	}
	return fmt.Sprintf("next: weft train %s --model %s%s", refusal.ShellWord(store), o.Model, learns)
}
