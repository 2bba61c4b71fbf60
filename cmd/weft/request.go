package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/cmd/weft/internal/ui"
	"weft/gnn"
	"weft/graph"
	"weft/graph/columns"
	"weft/internal/refusal"
	"weft/nn"
	"weft/train"
	"weft/train/rundir"
	"weft/train/setting"
)

// request is the model and the graph that are asked for predictions, by predict, evaluate and serve.
type request struct {
	options *setting.Resolved
	run     string         // its directory; empty: --init names the weights
	learned learnedClasses // the classes of the run; its store is empty where it is not known
	weights string
	columns columns.ByType // that the weights were trained on; nil: they do not say
	graph   string         // dataset or store
	tables  tablesGiven    // of a graph in the place of the run's
	// changed says that the run's own graph has other vertices than it was trained on. The split that was
	// drawn of these is then not drawn again: training vertices would be among the test vertices.
	changed bool
	// relations that the run was trained on, in their order; nil: one, or they are not known
	relations []string
	// weighted says that the edges that the run trained on have weights.
	weighted bool
}

// source is the graph, with the flags of its tables, which are read like those that the weights were trained
// on.
func (r *request) source() source {
	s := r.tables.of(r.graph)
	if r.columns != nil && s.given("vertices-from") && !s.given(columnsOfFlag) {
		s.like = cmp.Or(r.run, r.weights)
	}
	return s
}

// requestOf is what a run asks for by itself, and its settings: predictions of its own graph, or of the one
// that args name after the run.
func requestOf(args []string) (asked request, o setting.Options, run rundir.Run, err error) {
	if run, o, asked.weights, err = rundir.Read(args[0]); err != nil {
		return asked, o, run, err
	}
	asked.run, asked.graph = args[0], run.Store
	asked.learned = learnedClasses{run.Store, run.ClassNames}
	asked.relations, asked.weighted = run.Summary.Graph.Relations, run.Summary.Graph.Weighted
	if len(args) == 2 {
		asked.graph = args[1]
	}
	if o.Split.Rule != "" { // it divides the run's own graph, as it was
		own := len(args) == 1 || sameFile(args[1], run.Store)
		if n, err := graph.VerticesIn(run.Store); own && err == nil && n != run.Summary.Graph.Vertices {
			asked.changed = true // if it cannot be read, who opens it says why
		}
		if !own || asked.changed {
			o.Split.Rule = ""
		}
	}
	return asked, o, run, nil
}

// hasGraph refuses the run's own graph, unless args name another, if the run names none that is there.
func (r *request) hasGraph(command string, args []string) error {
	record := filepath.Join(args[0], "run.json")
	give := "weft " + command + " " + refusal.ShellWord(args[0]) + " STORE"
	switch _, err := os.Stat(r.graph); {
	case len(args) == 2:
	case r.graph == "":
		return refusal.Errorf("%s names no store, as the graph was made in memory; give one: %s", record, give)
	case err != nil:
		return refusal.Errorf("%s names %s, which is not there; give the store: %s", record, r.graph, give)
	}
	return nil
}

// readWeights reads the weights, and which columns they were trained on.
func (r *request) readWeights() (weights nn.State, err error) {
	if weights, err = nn.ReadState(r.weights); err == nil {
		r.columns, err = rundir.ColumnsOf(r.weights)
		return weights, err
	}
	if r.run != "" {
		err = fmt.Errorf("%w; put the weights of the run there, or train again: weft train STORE --config %s",
			err, refusal.ShellWord(filepath.Join(r.run, "run.yaml")))
	}
	return nil, err
}

// matchRelations refuses a store of other relations than those that R-GCN was trained on, or of another
// order: its weights know them by their numbers alone.
func (r *request) matchRelations(store string) error {
	if r.options.Model != "rgcn" || r.relations == nil {
		return nil
	}
	names, err := graph.RelationsIn(store)
	if err == nil && !slices.Equal(names, r.relations) {
		err = refusal.Errorf("%s: its relations are %s, and the weights of %s are for %s, in this order; import its "+
			"edges under these names and in this order", r.graph, strings.Join(names, ", "), r.run,
			strings.Join(r.relations, ", "))
	}
	return err
}

// fits has the job bring the features of its graph into the form that the weights expect. It refuses weights
// that another program named otherwise, and weights for other features.
func (r *request) fits(job *train.Job, weights nn.State, notes io.Writer) error {
	err := trainedOn(job, r.columns, cmp.Or(r.run, r.weights), r.graph, notes)
	if err != nil {
		return err
	}
	whole := job.Counts()
	features := whole.FeatureColumns
	names := slices.Sorted(maps.Keys(weights))
	if len(names) > 0 && !slices.ContainsFunc(names, gnn.OfLayer) {
		return refusal.Errorf("%s: the weights hold %s, where names like convs.0.bias were expected; "+
			"rename them as PyTorch Geometric's models do",
			r.weights, names[0])
	}
	if features == 0 {
		features = r.options.NodeEmbedding // learned
	}
	n, outputs := r.options.Widths(weights)
	if more := r.options.InputColumns(features, outputs) - features; n > 0 && n != features+more {
		return refusal.Errorf("%s has %s, the weights of %s are for %s; %s",
			r.graph, ui.Counted(features, "feature", "features"), r.weights, ui.Count(n-more),
			r.sameFeatures(n-more))
	}
	return nil
}

// sameFeatures is the way out for a graph with another number of features than the weights have.
func (r *request) sameFeatures(number int) string {
	these := ui.Counted(number, "feature", "features")
	switch {
	case r.learned.store == "":
		return "give a store with the " + these + " that they were trained on, in the same order"
	case sameFile(r.learned.store, r.graph):
		return "the store has changed since " + r.run + " was trained on it: give one with the " + these +
			" of then, in the same order, or train again"
	}
	return "give a store with the " + these + " of " + r.learned.store + ", which " + r.run +
		" was trained on, in the same order"
}
