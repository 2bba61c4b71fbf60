package graph

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"weft/graph/columns"
	"weft/internal/document"
	"weft/internal/refusal"
)

// The files of a store. Those of vertices lie in the vertex type's directory and those of edges in the
// relation's; in a graph of one type and one relation both are the store itself.
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
	labelsFile          = "labels.npy"           // int64, V; or float32, V × classes or columns
	namesFile           = "names.json"           // a list of V strings
	classNamesFile      = "class_names.json"     // a list of strings, one per class
)

// IsStore reports whether a folder is a store.
func IsStore(folder string) bool {
	_, err := os.Lstat(filepath.Join(folder, descriptionFile))
	return err == nil
}

// relationFiles are the files of an edge type, and what errors call the ends in them.
type relationFiles struct{ indptr, indices, weights, features, neighbours string }

var inEdges = relationFiles{indptrFile, indicesFile, weightsFile, edgeFeaturesFile, "in-neighbours"}

// splitFiles hold int64 ids: one list, or with several splits one row per split, padded with −1.
var splitFiles = [3]string{"train.npy", "val.npy", "test.npy"}

const (
	formatVersion  = 1
	maxDescription = 4 << 20 // bytes of graph.json: 15,000 relations of a share, or thousands of splits
	importAgain    = "import it again"
	layoutDense    = "dense"
	layoutSparse   = "sparse"
	labelsClass    = "class"
	labelsMulti    = "multi"
	labelsValues   = "values"
	verticesFolder = "vertices" // has a directory for each type, TYPE
	edgesFolder    = "edges"    // has a directory for each relation, SOURCE__NAME__TARGET
	maxTypes       = 1 << 16    // of vertices, and of edges
	maxName        = 200        // bytes of the name of a type
	maxFolder      = 255        // bytes of the name of a directory
)

// description is graph.json: what the arrays beside it must be.
type description struct {
	Format     int                   `json:"format"`
	Provenance string                `json:"provenance"`
	Metric     string                `json:"metric,omitempty"`
	Earlier    []string              `json:"earlier,omitempty"`
	Vertices   []vertexDescription   `json:"vertices"`
	Relations  []relationDescription `json:"relations"`
}

// vertexDescription is one vertex type.
type vertexDescription struct {
	Type     string               `json:"type"`
	Count    int                  `json:"count"`
	Features *featuresDescription `json:"features,omitempty"`
	Labels   *labelsDescription   `json:"labels,omitempty"`
	Splits   []SplitSizes         `json:"splits,omitempty"`
	Names    bool                 `json:"names,omitempty"` // names.json is there
	Table    *columns.Table       `json:"table,omitempty"` // that the features are made of
	Arrays   []ArrayShape         `json:"arrays,omitempty"`
	Graphs   int                  `json:"graphs,omitempty"` // graph_ids.npy is there, of so many graphs
}

type featuresDescription struct {
	Layout  string `json:"layout"` // dense or sparse
	Dtype   string `json:"dtype"`
	Columns int    `json:"columns"`
	Stored  int    `json:"stored,omitempty"` // sparse: the number of stored values
}

type labelsDescription struct {
	Kind    string `json:"kind"` // class, multi or values
	Dtype   string `json:"dtype"`
	Classes int    `json:"classes"`           // 0 of values
	Columns int    `json:"columns,omitempty"` // of values
	Names   bool   `json:"names,omitempty"`   // class_names.json is there
}

// relationDescription is one edge type, from vertices of type Source to vertices of type Target.
type relationDescription struct {
	Source         string                `json:"source"`
	Name           string                `json:"name"`
	Target         string                `json:"target"`
	Count          int                   `json:"count"`
	Dtype          string                `json:"dtype"` // of the in-neighbours
	Weights        bool                  `json:"weights,omitempty"`
	FeatureColumns int                   `json:"feature_columns,omitempty"`
	EndColumns     [2]string             `json:"end_columns,omitzero"`
	NumberColumns  columns.List          `json:"number_columns,omitempty"`
	EdgeSplit      *edgeSplitDescription `json:"edge_split,omitempty"`
	Frame          *frameDescription     `json:"edge_labels,omitempty"`
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
		return nil, refusal.Errorf("%s: not a graph store, as it has no %s; import or generate one",
			dir, descriptionFile)
	}
	if err != nil {
		return nil, refusal.Advise(err, importAgain)
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
		return nil, refusal.Errorf("it describes one share of a partitioned graph; name the store of the " +
			"whole graph instead")
	}
	return d, d.check(nil)
}

// check checks the types and relations of a graph, or of a part of one that has a whole of so many vertices
// of each type.
func (d *description) check(whole []int) error {
	counts, dirs, all := map[string]int{}, map[string]bool{}, 0
	folder := func(what, dir string) error {
		if dirs[dir] {
			return refusal.Errorf("two %s would have the folder %q: rename one of them", what, dir)
		}
		if name := filepath.Base(dir); d.layout() == inFolders && len(name) > maxFolder {
			return refusal.Errorf("the folder %.60q… would have a name of %d bytes, and file systems take "+
				"%d: shorten the names of types and relations", name, len(name), maxFolder)
		}
		dirs[dir] = true
		return nil
	}
	for i := range d.Vertices {
		v := &d.Vertices[i]
		total := v.Count
		if whole != nil {
			total = whole[i]
		}
		if err := cmp.Or(checkName("type", v.Type), v.check(total)); err != nil {
			return err
		}
		if _, twice := counts[v.Type]; twice {
			return refusal.Errorf("two vertex types are called %q", v.Type)
		}
		if err := folder("vertex types", inFolders.vertices(v.Type)); err != nil {
			return err
		}
		if i > 0 && (v.Labels != nil || len(v.Splits) > 0 || v.Graphs != 0) {
			return refusal.Errorf("the vertex type %q has labels, splits or a number of graphs, which are "+
				"the first type's, %q", v.Type, d.Vertices[0].Type)
		}
		counts[v.Type] = v.Count
		all += v.Count
	}
	if len(d.Vertices) == 0 || len(d.Relations) == 0 || len(d.Vertices) > maxTypes ||
		len(d.Relations) > maxTypes {
		return refusal.Errorf("%d vertex types and %d relations: a graph has at least one of each",
			len(d.Vertices), len(d.Relations))
	}
	if err := checkVertexCount(all); err != nil {
		return err
	}
	if n := d.Vertices[0].Graphs; n < 0 || n > all {
		return refusal.Errorf("%d graphs of %d vertices are not possible", n, all)
	}
	for i := range d.Relations {
		r := &d.Relations[i]
		if err := cmp.Or(checkName("relation", r.Name), r.check()); err != nil {
			return err
		}
		for _, end := range []string{r.Source, r.Target} {
			if _, known := counts[end]; !known {
				return refusal.Errorf("relation %q joins %q to %q, and there is no vertex type %q", r.Name,
					r.Source, r.Target, end)
			}
		}
		if err := folder("relations", inFolders.edges(r.Source, r.Name, r.Target)); err != nil {
			return err
		}
	}
	return nil
}

// checkName refuses the name of a type or relation of which FolderName makes none of a directory.
func checkName(what, name string) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, odd) {
		return refusal.Errorf("a %s is called %.*q: give it a name of up to %d bytes of printed characters",
			what, maxName, name, maxName)
	}
	return nil
}

// FolderName is the name of the directory of a vertex type, or of a relation as SOURCE__NAME__TARGET: the
// type's or relation's own, with %2F for each slash and %2E for a dot in front.
func FolderName(name string) string {
	name = strings.ReplaceAll(name, "/", "%2F")
	if strings.HasPrefix(name, ".") {
		name = "%2E" + name[1:]
	}
	return name
}

// layout says where the files of types and relations lie below a store: in directories of their own, or where
// there is one type and one relation in the store itself.
type layout bool

const (
	inStore   layout = false
	inFolders layout = true
)

func (d *description) layout() layout { return len(d.Vertices) > 1 || len(d.Relations) > 1 }

func (g *Graph) layout() layout { return layout(g.Typed()) }

// vertices returns the directory of a vertex type.
func (l layout) vertices(name string) string {
	if l == inStore {
		return ""
	}
	return filepath.Join(verticesFolder, FolderName(name))
}

// edges returns the directory of a relation.
func (l layout) edges(source, name, target string) string {
	if l == inStore {
		return ""
	}
	return filepath.Join(edgesFolder, FolderName(fullName(source, name, target)))
}

// check checks what belongs to vertices out of a whole of so many.
func (v *vertexDescription) check(whole int) error {
	if err := checkVertexCount(v.Count); err != nil {
		return err
	}
	if f := v.Features; f != nil {
		if (f.Layout != layoutDense && f.Layout != layoutSparse) || f.Dtype != "float32" ||
			f.Columns < 1 || f.Stored < 0 {
			return refusal.Errorf("features %q of %q with %d columns and %d stored values are not possible",
				f.Layout, f.Dtype, f.Columns, f.Stored)
		}
	}
	if l := v.Labels; l != nil {
		dtype := map[string]string{
			labelsClass: "int64", labelsMulti: "float32",
			labelsValues: "float32",
		}[l.Kind]
		if l.Dtype == "" || l.Dtype != dtype || l.Classes < 0 || l.Classes > maxClasses(whole) {
			return refusal.Errorf("labels %q of %q with %d classes are not possible", l.Kind,
				l.Dtype, l.Classes)
		}
		if values := l.Kind == labelsValues; values != (l.Columns > 0) || values && l.Classes > 0 ||
			l.Columns < 0 || l.Columns > maxClasses(whole) {
			return refusal.Errorf("labels %q with %d classes and %d columns are not possible", l.Kind,
				l.Classes, l.Columns)
		}
	}
	for k, s := range v.Splits {
		for _, size := range s.sizes() {
			if size < 0 || size > v.Count {
				return refusal.Errorf("split %d has %d of %d vertices", k, size, v.Count)
			}
		}
	}
	return checkArrayShapes(v.Arrays)
}

// check checks a relation as far as that needs no vertex type.
func (r *relationDescription) check() error {
	if r.Dtype != "int32" || r.Count < 0 || r.FeatureColumns < 0 {
		return refusal.Errorf("relation %q of %q with %d edges and %d feature columns is not possible",
			r.Name, r.Dtype, r.Count, r.FeatureColumns)
	}
	return r.Frame.check(r.Count)
}

// Files lists the files that make up the store in dir, graph.json first.
func Files(dir string) ([]string, error) {
	d, err := readDescription(dir)
	if err != nil {
		return nil, err
	}
	files := []string{descriptionFile}
	add := func(dir string, lists ...[]storedArray) {
		for _, a := range slices.Concat(lists...) {
			files = append(files, filepath.Join(dir, a.file))
		}
	}
	named := func(there bool, names ...string) (all []storedArray) {
		for _, name := range names {
			if there {
				all = append(all, storedArray{file: name})
			}
		}
		return all
	}
	for i := range d.Relations {
		r, none := &d.Relations[i], &Relation{EdgeSplit: &EdgeSplit{}}
		at := d.layout().edges(r.Source, r.Name, r.Target)
		add(at, none.stored(inEdges, r, 0))
		if l := r.Frame; l != nil {
			add(at, named(l.Labels.Names, edgeClassNamesFile), named(len(l.Splits) > 0, edgePartFiles[:]...))
		}
	}
	for i := range d.Vertices {
		v := &d.Vertices[i]
		t := &VertexType{Frame: Frame{Arrays: described(v.Arrays)}}
		at := d.layout().vertices(v.Type)
		add(at, t.Features.stored(v.Features, 0), (&Labels{}).stored(v.Labels, 0))
		add(at, named(v.Labels != nil && v.Labels.Names, classNamesFile),
			named(len(v.Splits) > 0, splitFiles[:]...))
		add(at, named(v.Names, namesFile), t.stored(v, d.Vertices[0].Graphs))
	}
	return files, nil
}

// CheckStored refuses a graph that is evidently not the one stored in dir: counts, what it has, or where it
// came from differ.
func (g *Graph) CheckStored(dir string) error {
	d, err := readDescription(dir)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(d, describe(g)) {
		return refusal.Errorf("%s: the graph in memory is not the one in this store; open the store again",
			dir)
	}
	return nil
}

// describe returns the description that a graph is stored under.
func describe(g *Graph) *description {
	d := &description{Format: formatVersion, Provenance: g.Provenance, Metric: g.Metric, Earlier: g.Earlier}
	for _, t := range g.Types {
		d.Vertices = append(d.Vertices, describeVertices(t))
	}
	v := &d.Vertices[0]
	v.Splits = SizesOf(g.Types[0].Splits)
	v.Labels = describeLabels(&g.Types[0].Labels)
	v.Graphs = g.Graphs
	for i := range g.Relations {
		d.Relations = append(d.Relations, describeRelation(&g.Relations[i]))
	}
	return d
}

// describeLabels describes labels, nil where there are none.
func describeLabels(l *Labels) *labelsDescription {
	d := &labelsDescription{Dtype: "float32", Classes: l.Classes, Columns: l.Columns, Names: l.Names != nil}
	switch {
	case l.Continuous():
		d.Kind = labelsValues
	case l.MultiLabel():
		d.Kind = labelsMulti
	case l.Class != nil:
		d.Kind, d.Dtype = labelsClass, "int64"
	default:
		return nil
	}
	return d
}

// describeVertices describes what every vertex type may have.
func describeVertices(t VertexType) vertexDescription {
	v := vertexDescription{
		Type: t.Name(), Count: t.Count, Names: t.Names != nil, Table: t.Table,
		Arrays: describeArrays(t.Arrays),
	}
	if f := &t.Features; f.Sparse() {
		v.Features = &featuresDescription{layoutSparse, "float32", f.Columns, len(f.Data)}
	} else if f.Columns > 0 {
		v.Features = &featuresDescription{layoutDense, "float32", f.Columns, 0}
	}
	return v
}

func describeRelation(r *Relation) relationDescription {
	source, name, target := r.Ends()
	return relationDescription{
		Source: source, Name: name, Target: target, Count: len(r.Sources),
		Dtype: "int32", Weights: r.Weights != nil, FeatureColumns: r.Features.Columns,
		EndColumns: r.EndColumns, NumberColumns: r.NumberColumns, EdgeSplit: describeEdgeSplit(r.EdgeSplit),
		Frame: describeFrame(&r.Frame),
	}
}
