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
package ogb

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// Options say which folder is read, and how.
type Options struct {
	Folder string
	// Split names the folder in split/; it may be empty where there is one.
	Split string
	// Rule divides the vertices instead of the folder's split; nil: the folder's split.
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

// known are the datasets for node and link property prediction whose graph is one, by the name of their
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
	return strings.TrimSuffix(strings.TrimSuffix(name, "_pyg"), "_dgl") // of the library's two loaders
}

// raw are the forms of raw/, one of which is there.
type raw struct {
	layout
	typed typedLayout
}

// openRaw opens raw/ in the form that it has.
func openRaw(path string) (r raw, err error) {
	const give = "give a folder that OGB's downloader left, such as dataset/ogbn_arxiv"
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return r, refusal.Errorf("%s: no such folder; %s", path, give)
	case err == nil && !info.IsDir():
		return r, refusal.Errorf("%s: not a folder; %s", path, give)
	}
	dir := filepath.Join(path, "raw")
	switch {
	case has(dir, "data.npz"):
		r.layout, err = openBinary(dir)
	case has(dir, "edge.csv.gz") || has(dir, "num-node-list.csv.gz"):
		r.layout = textFolder{dir}
	case has(dir, "triplet-type-list.csv.gz") || has(dir, "num-node-dict.csv.gz"):
		r.typed = typedText{textFolder{dir}}
	case has(dir, "edge_index_dict.npz") || has(dir, "num_nodes_dict.npz"):
		r.typed, err = openTypedBinary(dir)
	default:
		err = refusal.Errorf("%s: has neither edge.csv.gz nor data.npz, nor triplet-type-list.csv.gz nor edge_index_dict.npz; %s", dir, give)
	}
	return r, err
}

// check refuses options that are none.
func (o *Options) check() error {
	if o.FromEdges != "" && o.FromEdges != Mean && o.FromEdges != Sum {
		return refusal.Errorf("%s %q: give %s or %s", refusal.Setting("features-from-edges"), o.FromEdges, Mean, Sum)
	}
	return nil
}

func (o *Options) provenance() string { return cmp.Or(o.Provenance, "ogb "+o.Folder) }

// Open opens a folder of a graph of one type, to be read or written in a stream, until it is closed. Of
// several types it returns nil: Read reads them.
func Open(o Options) (*streamed.Graph, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r, err := openRaw(o.Folder)
	if err != nil {
		return nil, err
	}
	if r.typed != nil {
		r.typed.close()
		return nil, nil
	}
	g, err := openOne(r.layout, o)
	if err != nil {
		r.close()
		return nil, err
	}
	g.Release = r.close
	return g, nil
}

// Read reads the folder into memory: the graph that Write stores.
func Read(o Options) (*graph.Graph, error) {
	g, err := Open(o)
	if err != nil {
		return nil, err
	}
	if g != nil {
		defer g.Close()
		return g.Read()
	}
	r, err := openRaw(o.Folder)
	if err != nil {
		return nil, err
	}
	defer r.typed.close()
	return readTyped(r.typed, o)
}

// Write reads the folder and writes a new store, dir. A graph of one type is written in a stream (package
// streamed); one of several types is read into memory as a whole. If Write fails, it leaves nothing behind.
func Write(dir string, o Options) (*streamed.Written, error) {
	one, err := Open(o)
	if err != nil {
		return nil, err
	}
	if one != nil {
		defer one.Close()
		return one.Write(dir)
	}
	g, err := Read(o)
	if err != nil {
		return nil, err
	}
	return streamed.WrittenOf(g), g.Write(dir)
}

// folder is an open folder of a graph of one type. It has in memory all but features and edges.
type folder struct {
	Options
	layout
	counts    counts
	labels    graph.Labels
	splits    []graph.Split
	edgeSplit *graph.EdgeSplit // nil: the split is one of vertices
	metric    string
	inverse   bool
	notes     []string
	// warnings are of what is not read
	warnings []string
}

// readFolder reads all but features and edges.
func readFolder(l layout, o Options) (f *folder, err error) {
	f = &folder{Options: o, layout: l}
	if f.counts, err = readCounts(l); err != nil {
		return nil, err
	}
	if f.edgeSplit, err = o.readEdgeSplit(f.counts.vertices); err != nil {
		return nil, err
	}
	if f.edgeSplit == nil {
		if err := f.readLabels(); err != nil {
			return nil, err
		}
	}
	f.direct()
	var kept, unread []string
	for _, name := range l.more() {
		if array := arrayName(name); array != "" {
			kept = append(kept, fmt.Sprintf("%q", array))
		} else {
			unread = append(unread, name)
		}
	}
	notes, warnings := sayUnread(l.name(), append(unread, l.unknown()...))
	f.notes, f.warnings = slices.Concat(f.notes, sayKept(kept), notes), warnings
	return f, nil
}

// readLabels reads labels and the split of vertices.
func (f *folder) readLabels() error {
	m, err := f.layout.labels()
	if err != nil {
		return err
	}
	defer m.close()
	if f.labels, err = labelsOf(m, f.counts.vertices); err != nil {
		return err
	}
	f.splits, err = f.readSplits("", f.counts.vertices, &f.labels)
	return err
}

// sayKept returns a note of the arrays that are stored beside features and labels.
func sayKept(arrays []string) (notes []string) {
	if len(arrays) > 0 {
		notes = append(notes, "kept as arrays, which no model reads: "+strings.Join(arrays, ", "))
	}
	return notes
}

// sayUnread returns a note of the arrays of a folder that are known and not read, which are those of edges,
// and a warning of what is not known.
func sayUnread(folder string, names []string) (notes, warnings []string) {
	var known, unknown []string
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if strings.HasPrefix(name, "edge_") {
			known = append(known, name)
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(known) > 0 {
		notes = append(notes, "not read: "+arrays.Listed(known))
	}
	if len(unknown) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: not read, as nothing of OGB's has the name: %s", folder, arrays.Listed(unknown)))
	}
	return notes, warnings
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
