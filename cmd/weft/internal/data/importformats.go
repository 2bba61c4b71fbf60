package data

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weft/graph"
	"weft/graph/debian"
	"weft/graph/dgl"
	"weft/graph/kg"
	"weft/graph/npz"
	"weft/graph/ogb"
	"weft/graph/planetoid"
	"weft/graph/pyg"
	"weft/graph/rdf"
	"weft/graph/streamed"
	"weft/graph/tables"
	"weft/internal/foreign"
	"weft/internal/refusal"
	"weft/partition"
)

// format is a foreign format on the command line.
type format struct {
	name    string
	source  string // name of the source in the usage line
	several bool   // there may be several sources of one graph
	short   string
	example string // arguments of an example
	// recognize returns the source that a place is, or is a file of, and what its import needs; none: "".
	recognize func(place) recognition
	// files are those that a source consists of; nil, or if there are none: it is one file or folder.
	files func(source string) []string
	// flags declares the format's own flags. It returns the reader of graphs with their values.
	flags func(*pflag.FlagSet, *changes) reader
}

// reader opens graphs in a foreign format.
type reader struct {
	// prepare refuses flags that make no sense, before the source is read; nil: all make sense.
	prepare func() error
	open    func(*importRequest) (*streamed.Graph, error)
	tables  *tables.Options // the options that flags set; nil: the format has no tables
}

// inMemory is a reader that reads whole graphs into memory.
func inMemory(read func(*importRequest) (*graph.Graph, error)) reader {
	return reader{open: func(r *importRequest) (*streamed.Graph, error) {
		g, err := read(r)
		if err != nil {
			return nil, err
		}
		return streamed.Of(g, r.source()), nil
	}}
}

// EdgesFormat is the name of the format of lists of edges.
const EdgesFormat = "edges"

// formats are the formats. The first that recognizes a path takes it, so that edges, whose parts may be any
// files of text, come after other folders.
var formats = []format{
	{
		name: "planetoid", source: "PREFIX", example: "data/ind.cora stores/cora",
		short: "citation graphs as published with Planetoid: PREFIX.x, PREFIX.graph, …",
		flags: func(*pflag.FlagSet, *changes) reader {
			return inMemory(func(r *importRequest) (*graph.Graph, error) {
				return planetoid.Read(r.source())
			})
		},
		recognize: func(p place) recognition {
			prefix := planetoid.Prefix(p.path)
			return recognition{source: prefix, part: prefix != p.path}
		},
		files: planetoid.Files,
	},
	{
		name: "kg", source: "FOLDER", example: "data/FB15k-237 stores/fb15k-237 --reciprocal",
		short: "a knowledge graph as text: train.txt, valid.txt and test.txt with head, relation and tail " +
			"in each line, as WN18RR; or one such file",
		flags: kgFlags,
		recognize: func(p place) (r recognition) {
			if at := slices.IndexFunc(p.folders, kg.Is); at >= 0 {
				r.source = p.folders[at]
			}
			return r
		},
		files: kg.Files,
	},
	{
		name: "ogb", source: "FOLDER", example: "dataset/ogbn_arxiv stores/arxiv --symmetrize",
		short: "a folder that the Open Graph Benchmark's downloader left, with raw/ and split/",
		flags: ogbFlags,
		recognize: func(p place) recognition {
			splits := p.has("split/*")
			r := p.whole(len(p.has("raw")) > 0 && len(splits) > 0)
			if len(splits) == 1 {
				r.flags = []string{"--split", filepath.Base(splits[0])}
			}
			return r
		},
		files: func(source string) []string {
			return append(within(source, "raw"), within(source, "split")...)
		},
	},
	{
		name: "debian", source: "DIR", example: debian.Lists + " stores/debian",
		short: "a Debian machine's package index, as apt-get update leaves it",
		flags: func(_ *pflag.FlagSet, c *changes) reader {
			return inMemory(func(r *importRequest) (*graph.Graph, error) {
				return debian.Read(r.source(), debian.Options{Seed: c.seed})
			})
		},
		recognize: func(p place) recognition { return p.whole(len(p.has("*_Packages*")) > 0) },
		files:     func(source string) []string { return within(source, "*_Packages*") },
	},
	{
		name: "dgl", source: "FILE|JSON", example: "parts/mine.json stores/mine",
		short: "graphs saved by DGL (.bin, .dgl), or the JSON file of a graph partitioned by DGL, with " +
			"its partitions",
		flags: dglFlags,
		recognize: func(p place) recognition {
			if described := p.has("*.json"); len(described) == 1 && len(p.has("part0")) > 0 {
				return recognition{source: described[0]}
			}
			return p.whole(p.kind == foreign.DGLGraph || p.text(".json") && isDGLPartition(p.path))
		},
		files: func(source string) (files []string) {
			if isDGLPartition(source) {
				files = within(filepath.Dir(source), "part*")
			}
			return append(files, source)
		},
	},
	{
		name: "npz", source: "FILE|FOLDER",
		short: "a graph in one .npz file, as of gnn-benchmark and of the heterophilous datasets, or in a " +
			"folder of .npy files",
		example: "amazon_computers.npz stores/computers --symmetrize --largest-component --split " +
			"per-class=20,30",
		flags: npzFlags,
		recognize: func(p place) recognition {
			there := func(name string) bool { return len(p.has(name)) > 0 }
			return p.whole(p.kind == foreign.Archive || slices.ContainsFunc(
				[]string{"edge_index.npy", "edge_types.npy", "edges.npy", "adj_indptr.npy"}, there))
		},
	},
	{
		name: "rdf", source: "FILE...", several: true,
		short: "triples in N-Triples, plain or gzip, with tables of labels: a relation and its reverse " +
			"for each predicate",
		example: "mutag_stripped.nt.gz stores/mutag --train trainingSet.tsv --test testSet.tsv --entity " +
			"bond --label label_mutagenic",
		flags:     rdfFlags,
		recognize: recognizeRDF,
	},
	{
		name: EdgesFormat, source: "FILE...", several: true,
		short: "an edge list (CSV, TSV or Parquet) with a table of vertices, or with .npy or CSV features, " +
			"labels and splits",
		example: "payments.csv stores/payments --vertices-from customers.csv --id customer --label segment " +
			"--source payer --target payee --split random:60/20/20",
		flags: edgesFlags,
		recognize: func(p place) recognition {
			return p.whole(p.kind == foreign.Parquet || tables.AreParts(p.folder) ||
				p.text(".csv", ".tsv", ".txt", ".edges", ".edgelist"))
		},
		files: func(source string) []string {
			_, path := tables.Named(source)
			return []string{path}
		},
	},
	{
		name: "pyg", source: "FILE", example: "graph.pt stores/mine",
		short: "a Data, HeteroData, Batch or list of graphs of PyTorch Geometric, or a dataset, written " +
			"by torch.save",
		flags: pygFlags,
		recognize: func(p place) recognition {
			return p.whole(p.kind == foreign.Torch || p.kind == foreign.OldTorch)
		},
	},
}

// filesOf are the files and folders that a source consists of: it alone, unless the format has others.
func (f *format) filesOf(source string) (files []string) {
	if f.files != nil {
		files = f.files(source)
	}
	if files == nil {
		files = []string{source}
	}
	return files
}

// formatNamed is the format of that name, which exists.
func formatNamed(name string) *format {
	return &formats[slices.IndexFunc(formats, func(f format) bool { return f.name == name })]
}

// denseFlag declares --dense-features, for the formats whose features become sparse rows if most values are
// zero.
func denseFlag(flags *pflag.FlagSet, keep *bool) {
	flags.BoolVar(keep, "dense-features", false, "store features dense although most are zero")
}

func npzFlags(flags *pflag.FlagSet, c *changes) reader {
	var (
		o        npz.Options
		directed bool
	)
	flags.BoolVar(&directed, "directed", false,
		"keep edges in the direction in which the file lists them, as for a file named ..._directed.npz")
	denseFlag(flags, &o.DenseFeatures)
	return reader{
		prepare: func() error {
			if o.AsListed = directed || c.symmetrize; directed && c.symmetrize {
				return refusal.Errorf("--directed and --symmetrize: give one of the two")
			}
			if c.split != "" {
				o.DivideEdges = c.divideEdges
			}
			return nil
		},
		open: func(r *importRequest) (*streamed.Graph, error) { return npz.Open(r.source(), o) },
	}
}

func pygFlags(flags *pflag.FlagSet, c *changes) reader {
	var o pyg.Options
	flags.StringVar(&o.Target, "target", "", "the vertex `type` whose labels to learn, if several types "+
		"have labels")
	denseFlag(flags, &o.DenseFeatures)
	return reader{
		prepare: func() error {
			if c.split != "" {
				o.DivideEdges = c.divideEdges
			}
			return nil
		},
		open: func(r *importRequest) (*streamed.Graph, error) { return pyg.Open(r.source(), o) },
	}
}

func edgesFlags(flags *pflag.FlagSet, c *changes) reader {
	var (
		o         tables.Options
		columnsOf string
	)
	flags.StringVar(&o.Features, "features", "",
		"`file` (.npy, CSV, .csv.gz; .npz of scipy.sparse): a row of features per vertex, in order or by "+
			"a first column id")
	flags.StringVar(&o.Labels, "labels", "",
		"`file` (.npy, CSV, .csv.gz, Parquet): a class per vertex or its name, a 0/1 matrix, or values to "+
			"predict (floats); in order or by a first column id")
	flags.StringVar(&o.Train, "train", "",
		"`file` (the same): training vertices: ids, a mask, or masks (a column per split)")
	flags.StringVar(&o.Val, "val", "", "`file`: validation vertices")
	flags.StringVar(&o.Test, "test", "", "`file`: test vertices")
	denseFlag(flags, &o.DenseFeatures)
	flags.IntVar(&o.Count, "vertices", 0, "number of vertices (default: the largest id plus one)")
	flags.IntVar(&o.FirstID, "first-id", 0,
		"the `id` of the first vertex, 1 where ids count from 1: in the list, and in lists and columns of "+
			"ids")
	flags.BoolVar(&o.Strings, "string-ids", false,
		"vertices are named by any text; rows of arrays without ids are in the order in which names "+
			"first appear")
	tableFlags(flags, &o, &columnsOf)
	return reader{tables: &o, open: func(r *importRequest) (*streamed.Graph, error) {
		if err := checkTables(r.flags, &o); err != nil {
			return nil, err
		}
		o.Edges, o.Progress = r.sources, r.progress
		if c.split != "" {
			rule, err := graph.ParseSplit(c.split)
			if err != nil {
				return nil, err
			}
			o.EdgeSplits, o.EdgeSplitBy, o.EdgeSplitRule = c.divideEdges, rule.By(), rule
		}
		var err error
		if o.Like, err = likeOf(columnsOf); err != nil {
			return nil, err
		}
		return tables.Open(o)
	}}
}

func ogbFlags(flags *pflag.FlagSet, c *changes) reader {
	var (
		o       ogb.Options
		inverse bool
	)
	flags.Var(&splitOrRule{name: &o.Split, rule: &c.split}, "split",
		"`name` of a folder in split/ (default: the only one); or a rule, as random:60/20/20")
	flags.BoolVar(&inverse, "inverse-edges", false,
		"add the inverse of each edge; =false does not (default: as OGB does for this folder's name)")
	flags.StringVar(&o.FromEdges, "features-from-edges", "",
		"`name`, mean or sum: make a vertex's features of those of the edges into it")
	return reader{open: func(r *importRequest) (*streamed.Graph, error) {
		o.Folder, o.Symmetrize, o.Progress = r.source(), c.symmetrize, r.progress
		switch {
		case inverse:
			o.Inverse = ogb.Add
		case r.flags.Changed("inverse-edges"):
			o.Inverse = ogb.Leave
		}
		if c.split != "" {
			o.Rule = &ogb.Rule{Spec: c.split, Splits: c.splits, Seed: c.seed}
		}
		return ogb.Open(o)
	}}
}

// splitOrRule is the value of --split for a source with named splits: the name of a split, or a rule.
type splitOrRule struct {
	text string
	name *string
	rule *string // the rule in changes
}

func (s *splitOrRule) String() string { return s.text }
func (s *splitOrRule) Type() string   { return "string" }

// Set accepts a name or a rule. A rule has a colon or an equals sign. "given" stands for the only split,
// which the reader takes by default.
func (s *splitOrRule) Set(text string) error {
	s.text, *s.name, *s.rule = text, "", ""
	switch {
	case strings.ContainsAny(text, ":="):
		*s.rule = text
	case text != "given":
		*s.name = text
	}
	return nil
}

func rdfFlags(flags *pflag.FlagSet, _ *changes) reader {
	var o rdf.Options
	flags.StringVar(&o.Train, "train", "",
		"`file` of training entities and their labels: tab-separated columns, named in the first line")
	flags.StringVar(&o.Val, "val", "",
		"`file`, the same: validation entities (default: none; training then takes the last epoch)")
	flags.StringVar(&o.Test, "test", "", "`file`, the same: test entities")
	flags.StringVar(&o.Entity, "entity", "", "`column` of these tables with the entities' IRIs")
	flags.StringVar(&o.Label, "label", "", "`column` of these tables with their classes")
	flags.StringArrayVar(&o.Without, "without-predicate", nil,
		"`IRI` of a predicate whose triples to leave out, such as one that gives the label away; may "+
			"be repeated")
	return inMemory(func(r *importRequest) (*graph.Graph, error) {
		o.Paths = r.sources
		return rdf.Read(o)
	})
}

func kgFlags(flags *pflag.FlagSet, _ *changes) reader {
	var o kg.Options
	flags.BoolVar(&o.Reciprocal, "reciprocal", false,
		"add to each relation its reverse, rev_NAME, with the reverse of its split: heads are then "+
			"learned and ranked as tails are")
	return inMemory(func(r *importRequest) (*graph.Graph, error) {
		o.Path = r.source()
		return kg.Read(o)
	})
}

// dglFlags declares the flags of DGL's files. The partitions of a graph that DGL divided are imported, too.
func dglFlags(flags *pflag.FlagSet, c *changes) reader {
	var o dgl.Options
	flags.IntVar(&o.Graph, "graph", dgl.AllGraphs,
		"`number` of the graph in a file of several, from 0; -1: all, as one block-diagonal graph")
	for _, column := range []struct {
		value         *string
		name, meaning string
	}{
		{&o.Features, "features", "`name` in ndata of the features, NAME or TYPE/NAME, or none " +
			"(default: feat or features)"},
		{&o.Labels, "labels", "`name` in ndata of the labels: a class per vertex, or a 0/1 matrix " +
			"(default: label or labels)"},
		{&o.Train, "train", "`name` in ndata of the training mask (default: train_mask)"},
		{&o.Val, "val", "`name` in ndata of the validation mask (default: val_mask)"},
		{&o.Test, "test", "`name` in ndata of the test mask (default: test_mask)"},
		{
			&o.EdgeWeights, "edge-weights",
			"`name` in edata of the edge weights (default: the edges have none)",
		},
		{
			&o.EdgeFeatures, "edge-features",
			"`name` in edata of the edge features (default: feat or features)",
		},
		{&o.EdgeSplit, "edge-split", "`masks` to read train_mask, val_mask and test_mask in edata as a " +
			"split of edges for link prediction, or none for no such split (default: masks where neither " +
			"vertices nor these edges have labels, and the lists of AsLinkPredDataset)"},
	} {
		flags.StringVar(column.value, column.name, "", column.meaning)
	}
	denseFlag(flags, &o.DenseFeatures)
	return reader{
		prepare: func() error {
			if o.Graph < dgl.AllGraphs {
				return refusal.Errorf("--graph %d: graphs count from 0, and %d is all of them",
					o.Graph, dgl.AllGraphs)
			}
			if c.split != "" {
				o.DivideEdges = c.divideEdges
			}
			return nil
		},
		open: func(r *importRequest) (*streamed.Graph, error) {
			g, division, err := dgl.Open(r.source(), o)
			if err != nil || division == nil {
				return g, err
			}
			if c.largest {
				g.Close()
				return nil, refusal.Errorf("--largest-component: it numbers the vertices anew, and the "+
					"partitions of %s have the old numbers; leave it out", r.source())
			}
			g.InMemory.Notes = append(g.InMemory.Notes, fmt.Sprintf("DGL's %d partitions are stored with "+
				"the graph, for --parallel graph=%d --partition dgl", division.K, division.K))
			a := &partition.Assignment{K: division.K, Parts: division.Parts, Method: partition.DGL}
			g.Add = func(store string) error { return writePartitions(store, a, r.progress) }
			return g, nil
		},
	}
}
