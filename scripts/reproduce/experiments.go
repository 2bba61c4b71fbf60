package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A dataset is a graph to train on and the way to import it.
type dataset struct {
	name string
	// files is the pattern that must match something for the data to be there. DATA is the data folder, also
	// in the command.
	files   string
	command string // weft import, with STORE for the store
	splits  splits
}

// splits says what each seed trains on.
type splits int

const (
	provided splits = iota // the dataset's own split
	stored                 // the files' split of the seed's number
	random                 // a random split for each seed, as in the publication; import makes them
)

// importArgs are the arguments of weft that turn the files below folder into a store, with so many splits
// where these are random.
func (d *dataset) importArgs(folder, store string, splits int) []string {
	args := strings.Fields("import " + d.command)
	for i := range args {
		args[i] = in(folder, args[i])
	}
	args[slices.Index(args, "STORE")] = store
	if d.splits == random {
		args = append(args, "--splits", strconv.Itoa(splits))
	}
	return args
}

// found says whether the dataset's files are below folder.
func (d *dataset) found(folder string) bool {
	matches, err := filepath.Glob(in(folder, d.files))
	return err == nil && len(matches) > 0
}

// in is a path with the data folder in its place.
func in(folder, path string) string {
	if below, found := strings.CutPrefix(path, "DATA/"); found {
		return filepath.Join(folder, below)
	}
	return path
}

// An experiment is one configuration on its dataset, with the published figures.
type experiment struct {
	config  string // configs/CONFIG.yaml
	dataset *dataset
	model   string
	// published and deviation are the metric of the test vertices or edges in percent and its standard
	// deviation; 0 where none was published.
	published, deviation float64
	seeds                int // number of seeds by default
}

var (
	cora     = citations("Cora", "cora", "", provided)
	citeseer = citations("Citeseer", "citeseer", "", provided)
	// As in Huang et al. 2021: another random split for every seed
	coraRandom = citations("Cora, random splits", "cora", " --split random:60/20/20", random)

	// Prepared as in Shchur et al. 2018: undirected, the largest component, 20 training and 30 validation
	// vertices per class, another split for every seed
	physics  = archive("Coauthor Physics", "coauthor_physics", pitfalls, random)
	computer = archive("Amazon Computers", "amazon_computers", pitfalls, random)
	mines    = archive("Minesweeper", "minesweeper", "", stored)
	tolokers = archive("Tolokers", "tolokers", "", stored)

	debian = &dataset{
		name: "Debian packages", files: "/var/lib/apt/lists/*_Packages*",
		command: "debian /var/lib/apt/lists STORE",
	}
	mutag = entities("MUTAG", "mutag", "bond", "label_mutagenic")
	aifb  = entities("AIFB", "aifb", "person", "label_affiliation")

	arxiv     = benchmark("ogbn-arxiv", " --symmetrize")
	products  = benchmark("ogbn-products", "")
	proteins  = benchmark("ogbn-proteins", " --features-from-edges mean")
	mag       = benchmark("ogbn-mag", " --reverse-relations")
	papers    = benchmark("ogbn-papers100M", " --symmetrize")
	collab    = benchmark("ogbl-collab", "")
	ppa       = benchmark("ogbl-ppa", "")
	citation2 = benchmark("ogbl-citation2", " --symmetrize")
)

const pitfalls = " --symmetrize --largest-component --split per-class=20,30"

func citations(name, graph, flags string, s splits) *dataset {
	prefix := "DATA/planetoid/ind." + graph
	return &dataset{name, prefix + ".graph", "planetoid " + prefix + " STORE" + flags, s}
}

func archive(name, graph, flags string, s splits) *dataset {
	file := "DATA/npz/" + graph + ".npz"
	return &dataset{name, file, "npz " + file + " STORE" + flags, s}
}

// benchmark is a dataset of the Open Graph Benchmark, in the folder that its downloader leaves.
func benchmark(name, flags string) *dataset {
	folder := "DATA/" + strings.ReplaceAll(name, "-", "_")
	return &dataset{name, folder + "/raw/*", "ogb " + folder + " STORE" + flags, provided}
}

// entities is a dataset of triples as R-GCN was published on them, with tables of labels.
func entities(name, graph, entity, label string) *dataset {
	folder := "DATA/rdf_" + graph + "/"
	triples := folder + graph + "_stripped.nt.gz"
	return &dataset{name, triples, "rdf " + triples + " STORE --entity " + entity + " --label " + label +
		" --train " + folder + "trainingSet.tsv --test " + folder + "testSet.tsv", provided}
}

// experiments holds a row for every file of configs/. The published figures are those of the comment that
// opens the file.
var experiments = []experiment{
	{"cora-gcn", cora, "GCN", 81.5, 0, 10},
	{"cora-gat", cora, "GAT", 83.0, 0.7, 10},
	{"citeseer-gcn", citeseer, "GCN", 70.3, 0, 10},
	{"citeseer-gat", citeseer, "GAT", 72.5, 0.7, 10},
	{"cora-gcnii", cora, "GCNII", 85.5, 0.5, 10},
	{"citeseer-gcnii", citeseer, "GCNII", 73.4, 0.6, 10},
	{"cora-appnp", cora, "APPNP", 83.3, 0.5, 10},
	{"cora-sgc", cora, "SGC", 81.0, 0, 3},
	{"citeseer-sgc", citeseer, "SGC", 71.9, 0.1, 3},
	{"cora-mlp", coraRandom, "perceptron", 0, 0, 10},
	{"physics-gcnii", physics, "GCNII", 94.3, 0, 5},
	{"minesweeper-gcn", mines, "GCN", 89.75, 0.52, 10},
	{"minesweeper-sage", mines, "GraphSAGE", 93.51, 0.57, 10},
	{"minesweeper-gat", mines, "GAT", 92.01, 0.68, 10},
	{"tolokers-gcn", tolokers, "GCN", 83.64, 0.67, 10},
	{"tolokers-sage", tolokers, "GraphSAGE", 82.43, 0.44, 10},
	{"tolokers-gat", tolokers, "GAT", 83.70, 0.47, 10},
	{"physics-gcn", physics, "GCN", 92.8, 1.0, 5},
	{"physics-sage", physics, "GraphSAGE", 93.0, 0.8, 5},
	{"computers-gcn", computer, "GCN", 82.6, 2.4, 10},
	{"computers-sage", computer, "GraphSAGE", 82.4, 1.8, 10},
	{"mutag-rgcn", mutag, "R-GCN", 73.23, 0.48, 20},
	{"aifb-rgcn", aifb, "R-GCN", 95.83, 0.62, 20},
	{"ogbn-arxiv-gcn", arxiv, "GCN", 71.74, 0.29, 10},
	{"ogbn-arxiv-sage", arxiv, "GraphSAGE", 71.49, 0.27, 10},
	{"ogbn-products-gcn", products, "GCN", 75.64, 0.21, 10},
	{"ogbn-products-sage", products, "GraphSAGE", 78.50, 0.14, 10},
	{"ogbn-products-linear", products, "linear", 47.73, 0, 10},
	{"ogbn-proteins-gcn", proteins, "GCN", 72.51, 0.35, 10},
	{"ogbn-proteins-sage", proteins, "GraphSAGE", 77.68, 0.20, 10},
	{"ogbn-mag-rgcn", mag, "R-GCN", 39.77, 0.46, 10},
	{"ogbn-papers100m-sage", papers, "GraphSAGE", 63, 0, 3},
	{"ogbn-papers100m-sgc", papers, "SGC", 63.29, 0.19, 3},
	{"ogbl-collab-gcn", collab, "GCN", 44.75, 1.07, 10},
	{"ogbl-collab-sage", collab, "GraphSAGE", 48.10, 0.81, 10},
	{"ogbl-ppa-gcn", ppa, "GCN", 18.67, 1.32, 10},
	{"ogbl-ppa-sage", ppa, "GraphSAGE", 16.55, 2.40, 10},
	{"ogbl-citation2-gcn", citation2, "GCN", 84.74, 0.21, 10},
	{"ogbl-citation2-sage", citation2, "GraphSAGE", 82.60, 0.36, 10},
	{"debian-mlp", debian, "perceptron", 0, 0, 3},
	{"debian-sage", debian, "GraphSAGE", 0, 0, 3},
}

// A smoothing is what `weft smooth` does to the predictions of an experiment, and what was published for the
// result, as in experiment.
type smoothing struct {
	flags                []string
	published, deviation float64
}

// smoothings are of experiments by their configuration. The others are not smoothed.
var smoothings = map[string]smoothing{
	"cora-mlp": {},
	"ogbn-products-linear": {
		flags:     []string{"--correct-alpha", "1", "--scale", "20", "--smooth-alpha", "0.9"},
		published: 82.54, deviation: 0.03,
	},
}

// smoothed is the row of e after its smoothing.
func (e experiment) smoothed(s smoothing) experiment {
	e.model += ", Correct & Smooth"
	e.published, e.deviation = s.published, s.deviation
	return e
}
