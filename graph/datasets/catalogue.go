// Package datasets knows graphs by name. Each becomes a store in the user's cache directory the first time it
// is asked for: this machine's Debian package index, published datasets whose files the user has, and
// synthetic graphs. Commands call it if a name is given in place of a store.
package datasets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"weft/graph/debian"
	"weft/graph/generate"
)

// Dataset is a graph with a name.
type Dataset struct {
	Name   string
	About  string // a few words about the graph
	Origin string // where it comes from

	// vertices and edges (stored, directed) as known before the graph is there; 0: unknown.
	vertices int
	edges    int64

	source source // of a graph that is imported
	format string // of weft import
	flags  string // flags of weft import, in addition to those of tables
	tables *tables
	metric string            // the metric of published results, if the format has no metric
	make   *generate.Options // of a graph that is generated
}

// source finds the files from which a dataset is read.
type source struct {
	path     func() string   // the importer's argument; "": the place is not known
	files    func() []string // patterns of the files that must be there
	requires string          // a few words about what is needed
	get      string          // a sentence about how to get it
}

// All lists the datasets, in the order in which they are shown.
func All() []Dataset {
	return []Dataset{
		{
			Name: "debian", About: "packages and what they depend on, 58 sections",
			Origin: "this machine's package index",
			source: source{
				path:     func() string { return debian.Lists },
				files:    func() []string { return []string{filepath.Join(debian.Lists, "*_Packages*")} },
				requires: "apt-get update on a Debian machine",
				get: "run apt-get update on a Debian machine, which leaves the package lists in " +
					debian.Lists,
			},
			format: "debian",
		},
		benchmark("ogbn_arxiv", "time", " --symmetrize",
			"papers and what they cite, 40 fields", 169343, 2315598),
		benchmark("ogbn_products", "sales_ranking", "",
			"goods bought together, 47 kinds", 2449029, 2*61859140),
		benchmark("ogbn_proteins", "species", " --features-from-edges mean",
			"proteins that act together, 112 functions", 132534, 2*39561252),
		typedBenchmark("ogbn_mag", "time",
			"papers, authors, institutions and fields, 349 venues", 1939743, 2*21111007),
		benchmark("ogbn_papers100M", "time", " --symmetrize",
			"papers and what they cite, 172 fields", 111059956, 3228124712),
		citations("cora", 7, 2708, 10556),
		citations("citeseer", 6, 3327, 9104),
		citations("pubmed", 3, 19717, 88648),
		shchur("computers", "goods bought together, 10 kinds", 13381, 2*245778,
			"amazon_electronics_computers.npz", "amazon_computers.npz"),
		shchur("photo", "goods bought together, 8 kinds", 7487, 2*119043, "amazon_electronics_photo.npz",
			"amazon_photo.npz"),
		shchur("cs", "authors who publish together, 15 fields", 18333, 2*81894, "ms_academic_cs.npz",
			"coauthor_cs.npz"),
		shchur("physics", "authors who publish together, 5 fields", 34493, 2*247962, "ms_academic_phy.npz",
			"coauthor_physics.npz"),
		heterophilous("roman-empire", "words of a text, 18 roles", 22662, 2*32927, ""),
		heterophilous("amazon-ratings", "goods bought together, 5 ratings", 24492, 2*93050, ""),
		heterophilous("minesweeper", "a grid of mines, found by counts", 10000, 2*39402, "roc-auc"),
		heterophilous("tolokers", "workers on the same tasks, banned or not", 11758, 2*519000, "roc-auc"),
		heterophilous("questions", "who answers whom, active or not", 48921, 2*153540, "roc-auc"),
		entities("molecules, mutagenic or not, in RDF", 23644, 2*74227,
			tables{"mutag", "bond", "label_mutagenic"}),
		entities("people of an institute, 4 groups, in RDF", 0, 0,
			tables{"aifb", "person", "label_affiliation"}),
		synthetic("sbm-8k", "communities in noise", generate.Options{
			Kind: generate.SBM, Vertices: 8000,
			Degree: 20, Features: 16, Classes: 16,
		}),
		synthetic("rmat-16", "skewed degrees",
			generate.Options{Kind: generate.RMAT, Scale: 16, EdgeFactor: 16, Features: 64, Classes: 16}),
		synthetic("uniform-100k", "uniform ends",
			generate.Options{
				Kind: generate.Uniform, Vertices: 100_000, Degree: 20, Features: 64,
				Classes: 16, Directed: true,
			}),
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

// dataPath is the path of the first of the names that exists in folder, below the folder of published
// datasets; without any, the path of the first name. It is "" if the folder of all is not given.
func dataPath(folder string, names ...string) string {
	root := os.Getenv(dataVariable)
	if root == "" {
		return ""
	}
	for _, name := range names {
		path := filepath.Join(root, folder, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return filepath.Join(root, folder, names[0])
}

// getInto says how to get published files, and into which folder below that of all.
func getInto(folder, files string) string {
	return fmt.Sprintf("put %s into DIR/%s and set %s=DIR", files, folder, dataVariable)
}

// benchmark is a dataset for node property prediction of the Open Graph Benchmark (Hu et al. 2020,
// arXiv:2005.00687). Split and flags are those of published results. The folder has the name that OGB's
// downloader gives it. It is in the folder of all or, as in OGB's examples, in dataset/ there.
func benchmark(name, split, flags, about string, vertices int, edges int64) Dataset {
	folder := func() string { return dataPath("", name, filepath.Join("dataset", name)) }
	published := strings.ReplaceAll(name, "_", "-")
	return Dataset{
		Name: published, About: about, Origin: "ogb.stanford.edu/docs/nodeprop",
		vertices: vertices, edges: edges, format: "ogb", flags: "--split " + split + flags,
		source: source{
			path: folder,
			files: func() []string {
				return []string{
					filepath.Join(folder(), "raw", "*"),
					filepath.Join(folder(), "split", split, "*"),
				}
			},
			requires: filepath.Join("$"+dataVariable, name),
			get: fmt.Sprintf("let the Python package ogb download it, NodePropPredDataset(name=%q, "+
				"root=\"DIR\"), and set %s=DIR", published, dataVariable),
		},
	}
}

// typedBenchmark is a benchmark with several vertex types, and a reverse for each relation.
func typedBenchmark(name, split, about string, vertices int, edges int64) Dataset {
	d := benchmark(name, split, " --reverse-relations", about, vertices, edges)
	folder, untyped := d.source.path, d.source.files
	d.source.files = func() []string {
		return append(untyped(), filepath.Join(folder(), "raw", "*", "*", "*"),
			filepath.Join(folder(), "split", split, "*", "*"))
	}
	return d
}

// citations is a graph of Planetoid (Yang et al. 2016, arXiv:1603.08861).
func citations(name string, topics, vertices int, edges int64) Dataset {
	// One file each, by what follows the prefix.
	parts := []string{"x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"}
	prefix := func() string { return dataPath("planetoid", "ind."+name) }
	return Dataset{
		Name: name, About: fmt.Sprintf("citations, %d topics", topics),
		Origin:   "github.com/kimiyoung/planetoid",
		vertices: vertices, edges: edges,
		source: source{
			path: prefix,
			files: func() (files []string) {
				for _, part := range parts {
					files = append(files, prefix()+"."+part)
				}
				return files
			},
			requires: filepath.Join("$"+dataVariable, "planetoid", "ind."+name+".*"),
			get: getInto("planetoid",
				fmt.Sprintf("ind.%s.{%s} of https://github.com/kimiyoung/planetoid/tree/master/data",
					name, strings.Join(parts, ","))),
		},
		format: "planetoid",
	}
}

// npzFile is a file that is published in that place, under the first of its names.
func npzFile(place string, names ...string) source {
	path := func() string { return dataPath("npz", names...) }
	return source{
		path: path, files: func() []string {
			return []string{path()}
		}, requires: filepath.Join("$"+dataVariable, "npz", names[0]),
		get: getInto("npz", names[0]+" of "+place),
	}
}

// shchur is a graph as used in "Pitfalls of Graph Neural Network Evaluation" (Shchur et al. 2018,
// arXiv:1811.05868): undirected, its largest component, random splits with 20 vertices of each class to train
// and 30 to validate. Libraries save the files under names of their own.
func shchur(name, about string, vertices int, edges int64, names ...string) Dataset {
	return Dataset{
		Name: name, About: about, Origin: "github.com/shchur/gnn-benchmark", vertices: vertices, edges: edges,
		source: npzFile("https://github.com/shchur/gnn-benchmark/tree/master/data/npz", names...),
		format: "npz", flags: "--symmetrize --largest-component --split per-class=20,30 --splits 5",
	}
}

// heterophilous is a graph of Platonov et al. 2023 (arXiv:2302.11640), whose file lists each edge once.
// metric is the one in which they give results, "" for accuracy.
func heterophilous(name, about string, vertices int, edges int64, metric string) Dataset {
	return Dataset{
		Name: name, About: about, Origin: "github.com/yandex-research/heterophilous-graphs",
		vertices: vertices, edges: edges,
		source: npzFile("https://github.com/yandex-research/heterophilous-graphs/tree/main/data",
			strings.ReplaceAll(name, "-", "_")+".npz"),
		format: "npz", flags: "--symmetrize", metric: metric,
	}
}

// tables name the columns that count in the tables of a graph in RDF.
type tables struct{ name, entity, label string }

// in are the paths of the files in a folder.
func (t *tables) in(folder string) (triples, train, test string) {
	return filepath.Join(folder, t.name+"_stripped.nt.gz"), filepath.Join(folder, "trainingSet.tsv"),
		filepath.Join(folder, "testSet.tsv")
}

// flags are the flags of weft import rdf with the files in a folder.
func (t *tables) flags(folder string) []string {
	_, train, test := t.in(folder)
	return []string{"--train", train, "--test", test, "--entity", t.entity, "--label", t.label}
}

// RDF finds the files of one of the graphs in RDF in a folder. It returns its triples, and the flags of weft
// import rdf that name the other files.
func RDF(folder string) (triples string, flags []string, found bool) {
	for _, d := range All() {
		if d.tables == nil {
			continue
		}
		triples, train, test := d.tables.in(folder)
		there := func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && info.Mode().IsRegular()
		}
		if there(triples) && there(train) && there(test) {
			return triples, d.tables.flags(folder), true
		}
	}
	return "", nil, false
}

// entities is a graph in RDF of Ristoski et al. 2016 (https://doi.org/10.1007/978-3-319-46547-0_20), as R-GCN
// was published on it: without the predicates that give the label away.
func entities(about string, vertices int, edges int64, t tables) Dataset {
	name := t.name
	folder := func() string { return dataPath("", "rdf_"+name, name) }
	published := "https://data.dgl.ai/dataset/" + name + ".tgz"
	return Dataset{
		Name: name, About: about, Origin: "data.dgl.ai/dataset", vertices: vertices, edges: edges,
		format: "rdf", tables: &t,
		source: source{
			path: folder,
			files: func() []string {
				triples, train, test := t.in(folder())
				return []string{triples, train, test}
			},
			requires: filepath.Join("$"+dataVariable, "rdf_"+name, name+"_stripped.nt.gz"),
			get: getInto("rdf_"+name,
				fmt.Sprintf("%s_stripped.nt.gz, trainingSet.tsv and testSet.tsv of %s", name, published)),
		},
	}
}
