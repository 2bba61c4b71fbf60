// Package datasets knows the graphs that can be trained on by name. Each becomes a store in the user's cache
// directory the first time it is asked for: this machine's Debian package index, published datasets whose
// files the user has, synthetic graphs.
package datasets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"weft/graph"
	"weft/graph/debian"
	"weft/graph/generate"
	"weft/graph/npz"
	"weft/graph/planetoid"
)

// Dataset is a graph with a name.
type Dataset struct {
	Name   string
	About  string // what it is, in a few words
	Origin string // where it comes from

	// vertices and edges (stored, directed) are known before the graph is there, 0: not known.
	vertices int
	edges    int64

	source source                                  // of a graph that is read
	read   func(path string) (*graph.Graph, error) // from the source
	make   *generate.Options                       // of a graph that is generated
}

// source finds the files that a dataset is read from.
type source struct {
	path  func() string   // what the importer is given; "" while the place is not known
	files func() []string // patterns of the files that must be there
	wants string          // what is needed, in a few words
	get   string          // how to get it, in a sentence
}

// All lists the datasets, in the order in which they are shown.
func All() []Dataset {
	return []Dataset{
		{
			Name: "debian", About: "packages and what they depend on, 58 sections", Origin: "this machine's package index",
			source: source{
				path:  func() string { return debian.Lists },
				files: func() []string { return []string{filepath.Join(debian.Lists, "*_Packages*")} },
				wants: "apt-get update on a Debian machine",
				get:   "run apt-get update on a Debian machine, which leaves the package lists in " + debian.Lists,
			},
			read: func(path string) (*graph.Graph, error) { return debian.Read(path, debian.Options{}) },
		},
		{
			Name: "cora", About: "citations, 7 topics", Origin: "Planetoid files, github.com/kimiyoung/planetoid",
			vertices: 2708, edges: 10556, source: planetoidFiles("cora"), read: planetoid.Read,
		},
		{
			Name: "citeseer", About: "citations, 6 topics", Origin: "Planetoid files, github.com/kimiyoung/planetoid",
			vertices: 3327, edges: 9104, source: planetoidFiles("citeseer"), read: planetoid.Read,
		},
		{
			Name: "computers", About: "goods bought together, 10 kinds", Origin: "github.com/shchur/gnn-benchmark",
			source: npzFile("amazon_computers.npz", "amazon_electronics_computers.npz of "+shchur), read: readShchur,
		},
		{
			Name: "physics", About: "authors who publish together, 5 fields", Origin: "github.com/shchur/gnn-benchmark",
			source: npzFile("coauthor_physics.npz", "ms_academic_phy.npz of "+shchur), read: readShchur,
		},
		{
			Name: "minesweeper", About: "a grid of mines, found by counts", Origin: "github.com/yandex-research/heterophilous-graphs",
			vertices: 10000, edges: 78804, source: npzFile("minesweeper.npz", "minesweeper.npz of https://github.com/yandex-research/heterophilous-graphs/tree/main/data"),
			read: readMinesweeper,
		},
		synthetic("sbm-8k", "communities in noise", generate.Options{Kind: generate.SBM, Vertices: 8000, Degree: 20, Features: 16, Classes: 16}),
		synthetic("rmat-16", "skewed degrees", generate.Options{Kind: generate.RMAT, Scale: 16, EdgeFactor: 16, Features: 64, Classes: 16}),
		synthetic("uniform-100k", "uniform ends",
			generate.Options{Kind: generate.Uniform, Vertices: 100_000, Degree: 20, Features: 64, Classes: 16, Directed: true}),
	}
}

// synthetic is a dataset that is always available.
func synthetic(name, about string, o generate.Options) Dataset {
	d := Dataset{Name: name, About: about + ", synthetic", Origin: "weft generate " + o.Kind, make: &o}
	if o.Kind == generate.RMAT {
		d.vertices, d.edges = 1<<o.Scale, int64(o.EdgeFactor)<<o.Scale
	} else {
		d.vertices, d.edges = o.Vertices, int64(float64(o.Vertices)*o.Degree)
	}
	return d
}

// dataVariable names the environment variable with the folder of published datasets.
const dataVariable = "WEFT_DATA"

// dataFile is a path below the folder of published datasets, "" while that is not given.
func dataFile(elements ...string) string {
	root := os.Getenv(dataVariable)
	if root == "" {
		return ""
	}
	return filepath.Join(append([]string{root}, elements...)...)
}

// shchur is where Shchur et al. publish their graphs, under other names than libraries save them by.
const shchur = "https://github.com/shchur/gnn-benchmark/tree/master/data/npz"

// planetoidParts are the files of a graph, by what follows the prefix.
var planetoidParts = []string{"x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"}

func planetoidFiles(name string) source {
	prefix := func() string { return dataFile("planetoid", "ind."+name) }
	return source{
		path: prefix,
		files: func() []string {
			var files []string
			for _, part := range planetoidParts {
				files = append(files, prefix()+"."+part)
			}
			return files
		},
		wants: filepath.Join("$"+dataVariable, "planetoid", "ind."+name+".*"),
		get: getInto("planetoid", fmt.Sprintf("ind.%s.{%s} of https://github.com/kimiyoung/planetoid/tree/master/data",
			name, strings.Join(planetoidParts, ","))),
	}
}

// npzFile is a dataset of one file; published says by which name, and where.
func npzFile(name, published string) source {
	path := func() string { return dataFile("npz", name) }
	if !strings.HasPrefix(published, name) {
		published += ", renamed " + name + ","
	}
	return source{
		path: path, files: func() []string { return []string{path()} }, wants: filepath.Join("$"+dataVariable, "npz", name),
		get: getInto("npz", published),
	}
}

// getInto says how to get published files: into which folder below that of all.
func getInto(folder, files string) string {
	return fmt.Sprintf("put %s into DIR/%s and set %s=DIR", files, folder, dataVariable)
}

// readShchur reads a graph as "Pitfalls of Graph Neural Network Evaluation" (Shchur et al. 2018,
// arXiv:1811.05868) uses it: undirected, its largest component, random splits with 20 vertices of each class
// to train and 30 to validate.
func readShchur(path string) (*graph.Graph, error) {
	g, err := npz.Read(path, npz.Options{})
	if err != nil {
		return nil, err
	}
	if g, err = g.Symmetrize(); err != nil {
		return nil, err
	}
	if g, err = g.LargestComponent(); err != nil {
		return nil, err
	}
	g.Provenance += " (--symmetrize --largest-component --split per-class=20,30 --splits 5)"
	return g, g.MakeSplits("per-class=20,30", 5, 0)
}

// readMinesweeper reads the graph of Platonov et al. 2023 (arXiv:2302.11640), whose file lists each edge
// once.
func readMinesweeper(path string) (*graph.Graph, error) {
	g, err := npz.Read(path, npz.Options{})
	if err != nil {
		return nil, err
	}
	if g, err = g.Symmetrize(); err != nil {
		return nil, err
	}
	g.Provenance += " (--symmetrize)"
	g.Metric = "roc-auc"
	return g, nil
}
