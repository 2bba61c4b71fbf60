package ogb

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weft/graph"
	"weft/internal/refusal"
)

// textFolder is the layout of gzip text, with a file for each array. In a folder of several types of
// vertices, the files of each type and relation lie in a folder of their own.
type textFolder struct {
	raw   string
	typed bool
}

const textSuffix = ".csv.gz"

func (f textFolder) name() string { return f.raw }

func (f textFolder) close() {}

// path is the path of a file for the graph as a whole.
func (f textFolder) path(name string) string { return filepath.Join(f.raw, name+textSuffix) }

// vertices is the folder of a vertex type, without its labels, and relation the folder of a relation.
func (f textFolder) vertices(vertexType string) string { return f.within(nodeFeatures, vertexType) }
func (f textFolder) relation(r triplet) string         { return f.within("relations", r.String()) }

func (f textFolder) within(kind, name string) string {
	if !f.typed {
		return f.raw
	}
	return filepath.Join(f.raw, kind, name)
}

// countsOf returns a function that reads the numbers of vertices (element "node"), or of edges ("edge"), of
// the graphs in a folder.
func countsOf(folder string) func(element string) ([]int64, error) {
	return func(element string) (list []int64, err error) {
		path := filepath.Join(folder, "num-"+element+"-list"+textSuffix)
		lines, err := readLines(path)
		if err != nil {
			return nil, err
		}
		for _, fields := range lines {
			n, err := strconv.ParseInt(fields[0], 10, 64)
			if err != nil || len(fields) > 1 {
				return nil, refusal.Errorf("%s: %.40q is no count; %s", path, strings.Join(fields, ","),
					fetchAgain)
			}
			list = append(list, n)
		}
		return list, nil
	}
}

func (f textFolder) types() (types []graph.VertexType, err error) {
	if !f.typed {
		return oneType(f.raw, countsOf(f.raw))
	}
	path := f.path("num-node-dict")
	names, values, err := readHeader(path)
	if err != nil {
		return nil, err
	}
	for k, name := range names {
		if err := checkName(path, name); err != nil {
			return nil, err
		}
		count, err := strconv.ParseUint(values[k], 10, 31)
		if err != nil {
			return nil, refusal.Errorf("%s: %.40q is no count of vertices; %s", path, values[k], fetchAgain)
		}
		types = append(types, graph.VertexType{Type: name, Frame: graph.Frame{Count: int(count)}})
	}
	return types, nil
}

// readHeader reads a file of two lines: names, and a value for each.
func readHeader(path string) (names, values []string, err error) {
	lines, err := readLines(path)
	if err != nil {
		return nil, nil, err
	}
	if len(lines) != 2 || len(lines[0]) != len(lines[1]) {
		return nil, nil, refusal.Errorf("%s: holds no line of types and one with a value of each; %s", path,
			fetchAgain)
	}
	return lines[0], lines[1], nil
}

func (f textFolder) relations() (list []triplet, err error) {
	if !f.typed {
		return []triplet{{}}, nil
	}
	path := f.path("triplet-type-list")
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	for _, fields := range lines {
		if len(fields) != 3 {
			return nil, refusal.Errorf("%s: a relation is a source type, a name and a target type, and not "+
				"%.100q; %s", path, fields, fetchAgain)
		}
		for _, name := range fields {
			if err := checkName(path, name); err != nil {
				return nil, err
			}
		}
		list = append(list, triplet(fields))
	}
	return list, nil
}

func (f textFolder) edges(r triplet, within ends) (list edges, count int64, err error) {
	folder := f.relation(r)
	if count, err = onlyCount(folder, "edge", countsOf(folder)); err != nil {
		return nil, 0, err
	}
	t, err := openText(filepath.Join(folder, "edge"+textSuffix), 2)
	if err != nil {
		return nil, 0, err
	}
	return &textEdges{text: t, within: within}, count, nil
}

// textEdges reads lines of a source and a target.
type textEdges struct {
	*text
	within         ends
	ends           []int32 // the ends of the last edges, as they lie in the file
	source, target []int32
}

func (e *textEdges) name() string { return e.path }

// Next implements arrays.EndsReader.
func (e *textEdges) Next() (source, target []int32, err error) {
	if e.ends == nil {
		e.ends = make([]int32, blockValues)
		e.source, e.target = make([]int32, blockValues/2), make([]int32, blockValues/2)
	}
	n, err := e.ids(e.ends, e.within.source, e.within.target)
	if err != nil {
		return nil, nil, err
	}
	for k := range n / 2 {
		e.source[k], e.target[k] = e.ends[2*k], e.ends[2*k+1]
	}
	return e.source[:n/2], e.target[:n/2], nil
}

// openMatrix opens a file of a folder; nil: there is none.
func openMatrix(folder, name string) (matrix, error) {
	if !has(folder, name+textSuffix) {
		return nil, nil
	}
	return openText(filepath.Join(folder, name+textSuffix), 0)
}

func (f textFolder) matrix(name, typ string) (matrix, error) {
	return openMatrix(f.vertices(typ), name)
}

func (f textFolder) edgeFeatures(r triplet) (matrix, error) {
	return openMatrix(f.relation(r), edgeFeatures)
}

func (f textFolder) labelled() (labelled []string, err error) {
	if !f.typed {
		return []string{""}, nil
	}
	path := f.path("nodetype-has-label")
	names, values, err := readHeader(path)
	if err != nil {
		return nil, err
	}
	for k, name := range names {
		if has, err := strconv.ParseBool(values[k]); err != nil {
			return nil, refusal.Errorf("%s: %.40q is neither True nor False; %s", path, values[k], fetchAgain)
		} else if has {
			labelled = append(labelled, name)
		}
	}
	return labelled, nil
}

func (f textFolder) labels(vertexType string) (matrix, error) {
	return openText(filepath.Join(f.within("node-label", vertexType), "node-label"+textSuffix), 0)
}

// files lists what a folder has in addition to the files of features, labels and edges: tables such as
// node_year.csv.gz, without the end of their names, and others.
func files(folder string) (tables, others []string) {
	for _, file := range entries(folder) {
		if name, ok := strings.CutSuffix(file, textSuffix); ok {
			tables = append(tables, name)
		} else {
			others = append(others, file)
		}
	}
	return without(tables, "edge", "node-label", nodeFeatures, edgeFeatures, "num-node-list",
		"num-edge-list"), others
}

func (f textFolder) more(vertexType string) []string {
	tables, _ := files(f.vertices(vertexType))
	return slices.DeleteFunc(tables, func(name string) bool { return !f.isKept(name) })
}

// isKept reports whether a table is kept as an array of vertices.
func (f textFolder) isKept(name string) bool {
	array := arrayName(name)
	return array == name || array != "" && !f.typed
}

func (f textFolder) checkLists(types []string, relations []triplet) error {
	if !f.typed {
		return nil
	}
	labelled, err := f.labelled()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		folder string
		listed []string
		list   string
	}{
		{"relations", namesOf(relations), "triplet-type-list"},
		{nodeFeatures, types, "num-node-dict"},
		{"node-label", labelled, "nodetype-has-label"},
	} {
		folder := filepath.Join(f.raw, c.folder)
		if err := checkListed(folder, entries(folder), c.listed, f.path(c.list)); err != nil {
			return err
		}
	}
	return nil
}

func (f textFolder) unread(types []string, relations []triplet) (names []string) {
	for _, t := range types {
		tables, others := files(f.vertices(t))
		names = append(names, slices.DeleteFunc(tables, f.isKept)...)
		names = append(names, others...)
	}
	if !f.typed {
		return names
	}
	for _, r := range relations { // such as edge_reltype.csv.gz
		tables, others := files(f.relation(r))
		names = slices.Concat(names, tables, others)
	}
	tables, others := files(f.raw)
	known := []string{
		"num-node-dict", "triplet-type-list", "nodetype-has-label", "relations",
		nodeFeatures, "node-label",
	}
	return append(names, without(slices.Concat(tables, others), known...)...)
}
