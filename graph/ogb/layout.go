package ogb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/refusal"
)

// fetchAgain is the way out where a folder is not whole.
const fetchAgain = "fetch the folder again"

// layout is one of the forms in which the arrays of a graph lie in raw/. In a folder of one type of vertices
// neither the type nor the only relation has a name.
type layout interface {
	name() string // the folder
	// types lists the vertex types and how many vertices each has, and relations the relations.
	types() ([]graph.VertexType, error)
	relations() ([]triplet, error)
	// edges opens the edges of a relation, whose ends must lie within so many vertices, and tells how many
	// are announced.
	edges(r triplet, within ends) (list edges, count int64, err error)
	// matrix opens the matrix of that name of a vertex type, and edgeFeatures that of a relation; nil: there
	// is none.
	matrix(name, vertexType string) (matrix, error)
	edgeFeatures(r triplet) (matrix, error)
	// labelled lists the vertex types that have labels.
	labelled() ([]string, error)
	labels(vertexType string) (matrix, error)
	// more lists the matrices of a vertex type other than features and labels.
	more(vertexType string) []string
	// checkLists refuses arrays of other types and relations than the listed ones, as they would not be read.
	checkLists(types []string, relations []triplet) error
	// unread lists the names of files that are not read.
	unread(types []string, relations []triplet) []string
	close()
}

// Names of matrices, as text spells them. Archives have _ in place of -.
const (
	nodeFeatures = "node-feat"
	edgeFeatures = "edge-feat"
)

// triplet names a relation by its source type, its own name, and its target type.
type triplet [3]string

// String returns the relation's name in folders and archives.
func (t triplet) String() string { return strings.Join(t[:], "___") }

// openRaw opens raw/ in its form. typed says that there are several types of vertices.
func openRaw(path string) (l layout, typed bool, err error) {
	const give = "give a folder that OGB's downloader left, such as dataset/ogbn_arxiv"
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, refusal.Errorf("%s: no such folder; %s", path, give)
	case err == nil && !info.IsDir():
		return nil, false, refusal.Errorf("%s: not a folder; %s", path, give)
	}
	dir := filepath.Join(path, "raw")
	switch {
	case has(dir, "data.npz"):
		l, err = openArchives(dir)
	case has(dir, "edge.csv.gz") || has(dir, "num-node-list.csv.gz"):
		l = textFolder{raw: dir}
	case has(dir, "triplet-type-list.csv.gz") || has(dir, "num-node-dict.csv.gz"):
		l, typed = textFolder{raw: dir, typed: true}, true
	case has(dir, "edge_index_dict.npz") || has(dir, "num_nodes_dict.npz"):
		typed = true
		l, err = openTypedArchives(dir)
	default:
		err = refusal.Errorf("%s: has neither edge.csv.gz nor data.npz, nor triplet-type-list.csv.gz nor "+
			"edge_index_dict.npz; %s", dir, give)
	}
	return l, typed, err
}

// entries names what a folder holds, but for hidden files.
func entries(folder string) (names []string) {
	all, _ := os.ReadDir(folder) // what cannot be listed cannot be opened either
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// has reports whether a folder has a file of that name.
func has(folder, name string) bool {
	_, err := os.Lstat(filepath.Join(folder, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// without returns the names that are not known.
func without(names []string, known ...string) []string {
	return slices.DeleteFunc(slices.Clone(names),
		func(name string) bool { return slices.Contains(known, name) })
}

// checkListed refuses the first of the names, of things in that place, that a list lacks: what it names would
// be lost silently.
func checkListed(place string, names, listed []string, list string) error {
	if others := without(names, listed...); len(others) > 0 {
		return refusal.Errorf("%s: %.100q is not in %s, which lists %s; %s", place, others[0], list,
			arrays.Listed(listed), fetchAgain)
	}
	return nil
}

// namesOf returns the relations' names in folders and archives.
func namesOf(relations []triplet) (names []string) {
	for _, r := range relations {
		names = append(names, r.String())
	}
	return names
}

// checkName refuses what cannot be the name of a folder, before it becomes part of a path.
func checkName(where, name string) error {
	if name == "" || name != filepath.Base(name) || !filepath.IsLocal(name) {
		return refusal.Errorf("%s: %.60q is no name of a type; %s", where, name, fetchAgain)
	}
	return nil
}

// oneType makes the only vertex type of a folder from what the folder announces. count reads the number of
// vertices ("node"), or of edges ("edge"), of each of its graphs.
func oneType(folder string, count func(element string) ([]int64, error)) ([]graph.VertexType, error) {
	vertices, err := onlyCount(folder, "node", count)
	if err != nil {
		return nil, err
	}
	edges, err := onlyCount(folder, "edge", count)
	if err != nil {
		return nil, err
	}
	if vertices < 1 || vertices > math.MaxInt32 || edges < 0 || edges > math.MaxInt64/16 {
		return nil, refusal.Errorf("%s: announces %d vertices and %d edges, where 1 to %d vertices are "+
			"read; %s", folder, vertices, edges, math.MaxInt32, fetchAgain)
	}
	return []graph.VertexType{{Frame: graph.Frame{Count: int(vertices)}}}, nil
}

// onlyCount reads the number of vertices (element "node"), or of edges ("edge"), of the only graph of a
// folder.
func onlyCount(folder, element string, count func(element string) ([]int64, error)) (int64, error) {
	list, err := count(element)
	if err == nil && len(list) != 1 {
		err = refusal.Errorf("%s: holds %d graphs: a folder of one graph is read, as those of node "+
			"property prediction are", folder, len(list))
	}
	if err != nil {
		return 0, err
	}
	return list[0], nil
}

// ends are the numbers of vertices from which and to which edges lead.
type ends struct{ source, target int }

// edges reads the ends of edges.
type edges interface {
	arrays.EndsReader
	name() string // the file, and the array in it, for errors
}

// announced are edges whose number must be the announced one.
type announced struct {
	edges
	want, at int64
}

// Next implements arrays.EndsReader.
func (a *announced) Next() (source, target []int32, err error) {
	source, target, err = a.edges.Next()
	if errors.Is(err, io.EOF) && a.at != a.want {
		err = refusal.Errorf("%s: %d edges, where %d are announced; %s", a.name(), a.at, a.want, fetchAgain)
	}
	if err != nil {
		return nil, nil, err
	}
	a.at += int64(len(source))
	if a.at > a.want {
		return nil, nil, refusal.Errorf("%s: more edges than the %d announced; %s", a.name(), a.want,
			fetchAgain)
	}
	return source, target, nil
}

// matrix is a matrix of float32, row-major. NaN stands for a missing value.
type matrix interface {
	arrays.RowReader
	width() int // columns
	// where names a row, and its file, for errors.
	where(row int64) string
}

// whole is a matrix that must have a given number of rows.
type whole struct {
	matrix
	want int64
	at   int64 // how many rows have been read
	// finite says that no value may be missing.
	finite bool
}

// Next implements arrays.RowReader.
func (w *whole) Next() ([]float32, error) {
	rows, err := w.matrix.Next()
	if errors.Is(err, io.EOF) && w.at != w.want {
		return nil, refusal.Errorf("%s: the last row, where %d are announced; %s", w.where(max(w.at-1, 0)),
			w.want, fetchAgain)
	}
	if err != nil {
		return nil, err
	}
	n := int64(len(rows) / w.width())
	columns := w.width()
	if n > w.want-w.at {
		return nil, refusal.Errorf("%s: more rows than the %d announced; %s", w.where(w.want), w.want,
			fetchAgain)
	}
	if k := graph.NotFinite(rows); w.finite && k >= 0 {
		return nil, refusal.Errorf("%s: column %d is %v, where all features are numbers; %s",
			w.where(w.at+int64(k/columns)), k%columns, rows[k], fetchAgain)
	}
	w.at += n
	return rows, nil
}

// each calls do with all rows.
func (w *whole) each(do func(rows []float32) error) error {
	for {
		rows, err := w.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(rows)
		}
		if err != nil {
			return err
		}
	}
}

// arrayName returns the name, in a store, of an array of vertices other than features and labels; "": it is
// none. The species of proteins are published under their name alone.
func arrayName(name string) string {
	switch {
	case name == "species":
		return "node_species"
	case graph.IsArrayName(name):
		return name
	}
	return ""
}

// sayKept returns a note of the arrays that are stored in addition to features and labels.
func sayKept(arrays []string) (notes []string) {
	if len(arrays) > 0 {
		notes = append(notes, "kept as arrays, which no model reads: "+strings.Join(arrays, ", "))
	}
	return notes
}

// sayUnread returns a note of the arrays of a folder that are known and not read, which are arrays of edges,
// and a warning of the unknown ones.
func sayUnread(folder string, names []string) (notes, warnings []string) {
	slices.Sort(names)
	names = slices.Compact(names)
	isOfEdges := func(name string) bool { return strings.HasPrefix(name, "edge_") }
	unknown := slices.DeleteFunc(slices.Clone(names), isOfEdges)
	if known := without(names, unknown...); len(known) > 0 {
		notes = append(notes, "not read: "+arrays.Listed(known))
	}
	if len(unknown) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: not read, as nothing of OGB's has the name: %s",
			folder, arrays.Listed(unknown)))
	}
	return notes, warnings
}
