package graph

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"weft/internal/document"
	"weft/internal/refusal"
)

// The files of a store. Those of vertices lie in the vertex type's directory and those of edges in the edge
// type's; in a graph of one type both are the store itself.
const (
	descriptionFile = "graph.json"

	indptrFile       = "indptr.npy"        // int64, V+1
	indicesFile      = "indices.npy"       // int32, E: in-neighbours, ascending within a row
	weightsFile      = "edge_weight.npy"   // float32, E
	edgeFeaturesFile = "edge_features.npy" // float32, E × columns

	featuresFile        = "features.npy"         // float32, V × columns
	featuresIndptrFile  = "features_indptr.npy"  // int64, V+1
	featuresIndicesFile = "features_indices.npy" // int32, one per stored value, ascending within a row
	featuresDataFile    = "features_data.npy"    // float32, one per stored value
	labelsFile          = "labels.npy"           // int64, V; or float32, V × classes
	namesFile           = "names.json"           // a list of V strings
	classNamesFile      = "class_names.json"     // a list of strings, one per class
)

// relationFiles are the files of an edge type, and what errors call the ends in them.
type relationFiles struct{ indptr, indices, weights, features, neighbours string }

var inEdges = relationFiles{indptrFile, indicesFile, weightsFile, edgeFeaturesFile, "in-neighbours"}

// splitFiles hold int64 ids: one list, or with several splits one row per split, padded with −1.
var splitFiles = [3]string{"train.npy", "val.npy", "test.npy"}

const (
	formatVersion  = 1
	maxDescription = 1 << 20 // bytes of graph.json that are read: thousands of splits
	importAgain    = "import it again"
	layoutDense    = "dense"
	layoutSparse   = "sparse"
	labelsClass    = "class"
	labelsMulti    = "multi"
	theVertexType  = "vertex" // names of the types in a graph that has one of each
	theWholeType   = "whole"  // in a share of a partitioned graph: the vertices of the whole graph
)

// RelationName is the name of the relation in a graph of one edge type.
const RelationName = "edge"

// description is graph.json: what the arrays beside it must be.
type description struct {
	Format     int                   `json:"format"`
	Provenance string                `json:"provenance"`
	Metric     string                `json:"metric,omitempty"`
	Vertices   []vertexDescription   `json:"vertices"`
	Relations  []relationDescription `json:"relations"`
}

// vertexDescription is one vertex type.
type vertexDescription struct {
	Type     string               `json:"type"`
	Count    int                  `json:"count"`
	Features *featuresDescription `json:"features,omitempty"`
	Labels   *labelsDescription   `json:"labels,omitempty"`
	Splits   []splitDescription   `json:"splits,omitempty"`
	Names    bool                 `json:"names,omitempty"` // names.json is there
}

type featuresDescription struct {
	Layout  string `json:"layout"` // dense or sparse
	Dtype   string `json:"dtype"`
	Columns int    `json:"columns"`
	Stored  int    `json:"stored,omitempty"` // sparse: the number of stored values
}

type labelsDescription struct {
	Kind    string `json:"kind"` // class or multi
	Dtype   string `json:"dtype"`
	Classes int    `json:"classes"`
	Names   bool   `json:"names,omitempty"` // class_names.json is there
}

// splitDescription holds the sizes of one split.
type splitDescription struct {
	Train int `json:"train"`
	Val   int `json:"val"`
	Test  int `json:"test"`
}

func (s splitDescription) sizes() [3]int { return [3]int{s.Train, s.Val, s.Test} }

// relationDescription is one edge type, from vertices of type Source to vertices of type Target.
type relationDescription struct {
	Source         string `json:"source"`
	Name           string `json:"name"`
	Target         string `json:"target"`
	Count          int    `json:"count"`
	Dtype          string `json:"dtype"` // of the in-neighbours
	Weights        bool   `json:"weights,omitempty"`
	FeatureColumns int    `json:"feature_columns,omitempty"`
}

// readDescription reads graph.json and checks it as far as that needs no other file.
func readDescription(dir string) (*description, error) {
	path := filepath.Join(dir, descriptionFile)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Errorf("%s: no such graph store; import or generate one", dir)
	} else if err != nil {
		return nil, refusal.Errorf("%w", err)
	} else if !info.IsDir() {
		return nil, refusal.Errorf("%s: not a graph store, which is a directory; import or generate one", dir)
	}
	text, err := document.Read(path, maxDescription)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Errorf("%s: not a graph store, as it has no %s; import or generate one", dir, descriptionFile)
	}
	if err != nil {
		return nil, refusal.Errorf("%w; %s", err, importAgain)
	}
	d, err := parseDescription(text)
	if err != nil {
		return nil, refusal.Errorf("%s: %w; %s", path, err, importAgain)
	}
	return d, nil
}

// parseDescription reads the text of a store's graph.json.
func parseDescription(text []byte) (*description, error) {
	d := &description{}
	if err := document.StrictJSON(text, formatVersion, d); err != nil {
		return nil, err
	}
	if d.isPart() {
		return nil, refusal.Errorf("it describes one share of a partitioned graph; name the store of the whole graph instead")
	}
	if len(d.Vertices) != 1 || len(d.Relations) != 1 {
		return nil, refusal.Errorf("%d vertex types and %d relations, where this program reads graphs of one and one",
			len(d.Vertices), len(d.Relations))
	}
	v := &d.Vertices[0]
	if err := v.check(v.Count); err != nil {
		return nil, err
	}
	return d, d.Relations[0].check(v.Type, v.Type)
}

// check checks what belongs to vertices out of a whole of so many.
func (v *vertexDescription) check(whole int) error {
	if err := checkVertexCount(v.Count); err != nil {
		return err
	}
	if f := v.Features; f != nil {
		if (f.Layout != layoutDense && f.Layout != layoutSparse) || f.Dtype != "float32" || f.Columns < 1 || f.Stored < 0 {
			return refusal.Errorf("features %q of %q with %d columns and %d stored values are not possible",
				f.Layout, f.Dtype, f.Columns, f.Stored)
		}
	}
	if l := v.Labels; l != nil {
		dtype := map[string]string{labelsClass: "int64", labelsMulti: "float32"}[l.Kind]
		if l.Dtype == "" || l.Dtype != dtype || l.Classes < 0 || l.Classes > maxClasses(whole) {
			return refusal.Errorf("labels %q of %q with %d classes are not possible", l.Kind, l.Dtype, l.Classes)
		}
	}
	for k, s := range v.Splits {
		for _, size := range s.sizes() {
			if size < 0 || size > v.Count {
				return refusal.Errorf("split %d has %d of %d vertices", k, size, v.Count)
			}
		}
	}
	return nil
}

// check checks a relation that must join those vertex types.
func (r *relationDescription) check(source, target string) error {
	if r.Source != source || r.Target != target {
		return refusal.Errorf("relation %q joins %q to %q, where the vertex types are %q and %q", r.Name, r.Source, r.Target, source, target)
	}
	if r.Dtype != "int32" || r.Count < 0 || r.FeatureColumns < 0 {
		return refusal.Errorf("relation %q of %q with %d edges and %d feature columns is not possible",
			r.Name, r.Dtype, r.Count, r.FeatureColumns)
	}
	return nil
}

// Files lists the files that make up the store in dir, graph.json first.
func Files(dir string) ([]string, error) {
	d, err := readDescription(dir)
	if err != nil {
		return nil, err
	}
	v, r := &d.Vertices[0], &d.Relations[0]
	files := []string{descriptionFile, indptrFile, indicesFile}
	add := func(there bool, names ...string) {
		if there {
			files = append(files, names...)
		}
	}
	add(r.Weights, weightsFile)
	add(r.FeatureColumns > 0, edgeFeaturesFile)
	add(v.Features != nil && v.Features.Layout == layoutDense, featuresFile)
	add(v.Features != nil && v.Features.Layout == layoutSparse, featuresIndptrFile, featuresIndicesFile, featuresDataFile)
	add(v.Labels != nil, labelsFile)
	add(v.Labels != nil && v.Labels.Names, classNamesFile)
	add(len(v.Splits) > 0, splitFiles[:]...)
	add(v.Names, namesFile)
	return files, nil
}

// CheckStored refuses a graph that is evidently not the one stored in dir: counts, what it has, or where it
// came from differ. A graph does not hold the names of its types.
func (g *Graph) CheckStored(dir string) error {
	d, err := readDescription(dir)
	if err != nil {
		return err
	}
	mine := describe(g)
	mine.Vertices[0].Type = d.Vertices[0].Type
	r := &mine.Relations[0]
	r.Source, r.Name, r.Target = d.Relations[0].Source, d.Relations[0].Name, d.Relations[0].Target
	if !reflect.DeepEqual(d, mine) {
		return refusal.Errorf("%s: the graph in memory is not the one in this store; open the store again", dir)
	}
	return nil
}

// describe is the description that a graph is stored under.
func describe(g *Graph) *description {
	v := vertexDescription{Type: theVertexType, Count: g.Vertices(), Names: g.Names != nil, Splits: describeSplits(g.Splits)}
	if f := &g.Features; f.Sparse() {
		v.Features = &featuresDescription{layoutSparse, "float32", f.Columns, len(f.Data)}
	} else if f.Columns > 0 {
		v.Features = &featuresDescription{layoutDense, "float32", f.Columns, 0}
	}
	if l := &g.Labels; l.MultiLabel() {
		v.Labels = &labelsDescription{labelsMulti, "float32", l.Classes, l.Names != nil}
	} else if l.Class != nil {
		v.Labels = &labelsDescription{labelsClass, "int64", l.Classes, l.Names != nil}
	}
	r := describeRelation(theVertexType, theVertexType, &g.Relation)
	return &description{formatVersion, g.Provenance, g.Metric, []vertexDescription{v}, []relationDescription{r}}
}

func describeRelation(source, target string, r *Relation) relationDescription {
	return relationDescription{
		Source: source, Name: RelationName, Target: target, Count: len(r.Sources),
		Dtype: "int32", Weights: r.Weights != nil, FeatureColumns: r.EdgeColumns,
	}
}

func describeSplits(splits []Split) []splitDescription {
	var d []splitDescription
	for _, s := range splits {
		d = append(d, splitDescription{len(s.Train), len(s.Val), len(s.Test)})
	}
	return d
}
