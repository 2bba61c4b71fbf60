// Package ogb reads the folders that the downloader of the Open Graph Benchmark leaves for node and link
// property prediction (Hu et al. 2020, arXiv:2005.00687): raw/, with the graph as gzip text or as NumPy
// archives, and split/NAME/, with the vertices, or the edges, that train, validate and test. What lies in
// processed/ is not read.
//
//   - text: raw/edge.csv.gz (source, target), num-{node,edge}-list.csv.gz, node-label.csv.gz, and where there
//     are node-feat.csv.gz and edge-feat.csv.gz;
//
//   - binary: raw/data.npz (edge_index, num_{nodes,edges}_list, node_feat, edge_feat) and raw/node-label.npz.
//
//   - text of several vertex types: raw/triplet-type-list.csv.gz, num-node-dict.csv.gz,
//     nodetype-has-label.csv.gz, relations/HEAD___NAME___TAIL/, node-feat/TYPE/ and node-label/TYPE/, which
//     hold files as above;
//
//   - archives of several types: raw/{num_nodes,num_edges,edge_index,node_feat,edge_feat}_dict.npz and
//     node-label.npz, with a key for each type or relation.
//
// A graph of one type and any size is written in a stream (Write). Files are untrusted: nothing is allocated
// for a size that is only claimed.
//
// The command import ogb reads folders by it.
package ogb

import (
	"path/filepath"
	"strings"

	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// Options say which folder is read, and how.
type Options struct {
	Folder string
	// Split names the folder in split/. It may be empty if there is only one.
	Split string
	// Rule divides the vertices instead of the folder's split; nil: the folder's split.
	Rule *Rule
	// Inverse says whether each edge is stored with its inverse.
	Inverse Inverse
	// FromEdges makes the features of a vertex from the features of the edges into it: Mean or Sum. Empty: it
	// does not.
	FromEdges string
	// Symmetrize stores each edge both ways, once, as graph.Symmetrize does.
	Symmetrize bool
	Progress   graph.Progress
}

// Rule is a rule for splits (see graph.ParseSplit), and how many are made.
type Rule struct {
	Spec   string
	Splits int
	Seed   uint64
}

// Inverse says whether each edge is stored with its inverse.
type Inverse int

// The library adds inverse edges to some of its graphs. Its own table says to which. Nothing in the folder
// does.
const (
	ByName Inverse = iota // by the folder's name, as the library does; unknown: the edges stay as listed
	Add
	Leave
)

// How the features of a vertex are made from those of the edges into it.
const (
	Mean = "mean"
	Sum  = "sum"
)

// dataset is what the library knows about a dataset and the dataset's folder does not say.
type dataset struct {
	inverse bool
	metric  string
}

// known are the datasets for node and link property prediction that are one graph, by the name of their
// folder.
var known = map[string]dataset{
	"ogbn_arxiv":      {false, "accuracy"},
	"ogbn_products":   {true, "accuracy"},
	"ogbn_proteins":   {true, "roc-auc"},
	"ogbn_mag":        {false, "accuracy"},
	"ogbn_papers100m": {false, "accuracy"},
	"ogbl_ppa":        {true, ""},
	"ogbl_collab":     {true, ""},
	"ogbl_ddi":        {true, ""},
	"ogbl_citation2":  {false, ""},
}

// nameOf returns the name of a folder's dataset, as known spells it.
func nameOf(folder string) string {
	if path, err := filepath.Abs(folder); err == nil {
		folder = path
	}
	name := strings.ToLower(strings.ReplaceAll(filepath.Base(folder), "-", "_"))
	return strings.TrimSuffix(strings.TrimSuffix(name, "_pyg"), "_dgl") // by the library's two loaders
}

// check refuses impossible options.
func (o *Options) check() error {
	if o.FromEdges != "" && o.FromEdges != Mean && o.FromEdges != Sum {
		return refusal.Errorf("--features-from-edges %q: give %s or %s", o.FromEdges, Mean, Sum)
	}
	return nil
}

// Open opens a folder, to be read or written in a stream, until it is closed.
func Open(o Options) (*streamed.Graph, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	l, typed, err := openRaw(o.Folder)
	if err != nil {
		return nil, err
	}
	f := &folder{Options: o, layout: l, typed: typed, counts: map[string]int{}}
	return streamed.Opened(f.open, l.close)
}
