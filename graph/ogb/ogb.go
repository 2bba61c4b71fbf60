// Package ogb reads the folders that the downloader of the Open Graph Benchmark leaves for node property
// prediction (Hu et al. 2020, arXiv:2005.00687): raw/, with the graph as gzip text or as NumPy archives, and
// split/NAME/, with the vertices that train, validate and test. What lies in processed/ is not read.
//
//   - text: raw/edge.csv.gz (source, target), num-{node,edge}-list.csv.gz, node-label.csv.gz, and where there
//     are node-feat.csv.gz and edge-feat.csv.gz;
//   - binary: raw/data.npz (edge_index, num_{nodes,edges}_list, node_feat, edge_feat) and raw/node-label.npz.
//
// A graph of any size is written in a stream (Write). Files are untrusted: nothing is allocated for a size
// that is only claimed.
package ogb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/internal/refusal"
)

// Options say which folder is read, and how.
type Options struct {
	Folder string
	// Split names the folder in split/; it may be empty where there is one.
	Split string
	// Rule divides the vertices in place of the folder's split; nil: none does.
	Rule *Rule
	// Inverse says whether each edge is stored with its inverse.
	Inverse Inverse
	// FromEdges makes the features of a vertex from those of the edges into it: Mean or Sum. Empty: it does
	// not.
	FromEdges string
	// Symmetrize stores each edge both ways, once, as graph.Symmetrize does.
	Symmetrize bool
	// Provenance is the graph's; empty: "ogb" and the folder.
	Provenance string
	// Progress is told how far a stage is, about every 100,000 items; nil: nobody is.
	Progress func(stage string, done, all int64)
}

// Rule is a rule for splits (see graph.ParseSplit), and how many are made.
type Rule struct {
	Spec   string
	Splits int
	Seed   uint64
}

// Inverse says whether each edge is stored with its inverse.
type Inverse int

// The library adds inverse edges to some of its graphs. Its own table says to which; nothing in the folder
// does.
const (
	ByName Inverse = iota // as the library does, by the folder's name; else the edges stay as listed
	Add
	Leave
)

// How the features of a vertex are made from those of the edges into it.
const (
	Mean = "mean"
	Sum  = "sum"
)

// dataset is what the library knows of a dataset and its folder does not say.
type dataset struct {
	inverse bool
	metric  string
}

// known are the datasets for node property prediction, by the name of their folder.
var known = map[string]dataset{
	"ogbn_arxiv":      {false, "accuracy"},
	"ogbn_products":   {true, "accuracy"},
	"ogbn_proteins":   {true, "roc-auc"},
	"ogbn_mag":        {false, "accuracy"},
	"ogbn_papers100m": {false, "accuracy"},
}

// nameOf is the name of a folder's dataset, as known spells it.
func nameOf(folder string) string {
	if path, err := filepath.Abs(folder); err == nil {
		folder = path
	}
	name := strings.ToLower(strings.ReplaceAll(filepath.Base(folder), "-", "_"))
	return strings.TrimSuffix(strings.TrimSuffix(name, "_pyg"), "_dgl") // of the library's two loaders
}

// Summary is what Write wrote.
type Summary struct {
	// Graph has sizes, splits and notes, but no features, labels and edges.
	Graph    *graph.Graph
	Edges    int64
	OneClass bool // all labels are the same
}

// folder is an open folder, with what is kept in memory of it.
type folder struct {
	Options
	layout
	counts  counts
	labels  graph.Labels
	splits  []graph.Split
	metric  string
	inverse bool
	notes   []string
}

// open reads all but features and edges.
func open(o Options) (*folder, error) {
	if o.FromEdges != "" && o.FromEdges != Mean && o.FromEdges != Sum {
		return nil, refusal.Errorf("%s %q: give %s or %s", refusal.Setting("features-from-edges"), o.FromEdges, Mean, Sum)
	}
	l, err := openLayout(o.Folder)
	if err != nil {
		return nil, err
	}
	f := &folder{Options: o, layout: l}
	if err := f.read(); err != nil {
		l.close()
		return nil, err
	}
	return f, nil
}

// openLayout opens raw/ in the form that it has.
func openLayout(path string) (layout, error) {
	raw := filepath.Join(path, "raw")
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			_, err := os.Lstat(filepath.Join(raw, name))
			return err == nil
		})
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refusal.Errorf("%s: no such folder; give one that OGB's downloader left, such as dataset/ogbn_arxiv", path)
	case err == nil && !info.IsDir():
		return nil, refusal.Errorf("%s: not a folder; give one that OGB's downloader left, such as dataset/ogbn_arxiv", path)
	}
	switch {
	case has("data.npz"):
		l, err := openBinary(raw)
		if err != nil {
			return nil, refusal.Errorf("%w; %s", err, fetchAgain)
		}
		return l, nil
	case has("edge.csv.gz", "num-node-list.csv.gz"):
		return textFolder{raw}, nil
	}
	return nil, refusal.Errorf("%s: has neither raw/edge.csv.gz nor raw/data.npz; give a folder that OGB's downloader left, such as dataset/ogbn_arxiv", path)
}

// read reads sizes, labels and splits.
func (f *folder) read() (err error) {
	if f.counts, err = readCounts(f.layout); err != nil {
		return err
	}
	if f.labels, err = readLabels(f.layout, f.counts.vertices); err != nil {
		return err
	}
	if f.Rule != nil {
		g := &graph.Graph{Labels: f.labels}
		if err := g.MakeSplits(f.Rule.Spec, f.Rule.Splits, f.Rule.Seed); err != nil {
			return err
		}
		f.splits = g.Splits
	} else if f.splits, err = f.readSplits(); err != nil {
		return err
	}
	if f.Provenance == "" {
		f.Provenance = "ogb " + f.Folder
	}
	f.direct()
	if more := f.more(); len(more) > 0 {
		f.note("not read: %s", strings.Join(quoted(more), ", "))
	}
	return nil
}

// direct decides whether inverse edges are added, and notes why.
func (f *folder) direct() {
	name := nameOf(f.Folder)
	d, isKnown := known[name]
	f.metric = d.metric
	why := "as " + refusal.Setting("inverse-edges").String() + " asks for"
	switch {
	case f.Inverse != ByName:
		f.inverse = f.Inverse == Add
	case isKnown:
		f.inverse = d.inverse
		why = "as OGB's loader does for " + name
	default:
		why = fmt.Sprintf("as the folder lists them: %.60q is none of OGB's names (%s adds inverse edges)",
			filepath.Base(f.Folder), refusal.Setting("inverse-edges"))
	}
	if f.inverse {
		f.note("%d edges, and the inverse of each, %s", f.counts.edges, why)
	} else {
		f.note("%d edges, without inverse ones, %s", f.counts.edges, why)
	}
}

func (f *folder) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// quoted are names as they can be printed.
func quoted(names []string) []string {
	q := make([]string, len(names))
	for k, name := range names {
		q[k] = fmt.Sprintf("%.40q", name)
	}
	return q
}
