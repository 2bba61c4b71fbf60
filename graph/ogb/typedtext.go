package ogb

import (
	"path/filepath"
	"slices"
	"strconv"

	"weft/graph"
	"weft/internal/refusal"
)

// typedText is the layout of gzip text for several types: a folder for each relation and type, in which files
// lie as in textFolder.
type typedText struct{ textFolder }

func (f typedText) types() ([]graph.VertexType, error) {
	names, values, err := f.header(f.path("num-node-dict"))
	if err != nil {
		return nil, err
	}
	var types []graph.VertexType
	for k, name := range names {
		if err := checkName(f.path("num-node-dict"), name); err != nil {
			return nil, err
		}
		count, err := strconv.ParseUint(values[k], 10, 31)
		if err != nil {
			return nil, refusal.Errorf("%s: %.40q is no count of vertices; %s", f.path("num-node-dict"), values[k], fetchAgain)
		}
		types = append(types, graph.VertexType{Type: name, Count: int(count)})
	}
	return types, nil
}

// header reads a file of two lines: names, and a value of each.
func (f typedText) header(path string) (names, values []string, err error) {
	lines, err := readLines(path)
	if err != nil {
		return nil, nil, err
	}
	if len(lines) != 2 || len(lines[0]) != len(lines[1]) {
		return nil, nil, refusal.Errorf("%s: holds no line of types and one with a value of each; %s", path, fetchAgain)
	}
	return lines[0], lines[1], nil
}

func (f typedText) relations() ([]triplet, error) {
	path := f.path("triplet-type-list")
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	var list []triplet
	for _, fields := range lines {
		if len(fields) != 3 {
			return nil, refusal.Errorf("%s: a relation is a source type, a name and a target type, and not %.100q; %s", path, fields, fetchAgain)
		}
		r := triplet(fields)
		for _, name := range r {
			if err := checkName(path, name); err != nil {
				return nil, err
			}
		}
		list = append(list, r)
	}
	return list, nil
}

// relation returns the folder of a relation.
func (f typedText) relation(r triplet) textFolder {
	return textFolder{filepath.Join(f.raw, "relations", r.String())}
}

func (f typedText) edges(r triplet, within ends) (edges, int64, error) {
	count, err := countOne(f.relation(r), "edge")
	if err != nil {
		return nil, 0, err
	}
	list, err := f.relation(r).edges(within)
	return list, count, err
}

func (f typedText) edgeFeatures(r triplet) (matrix, error) { return f.relation(r).matrix(edgeFeatures) }

func (f typedText) features(vertexType string) (matrix, error) {
	return f.array(vertexType, nodeFeatures)
}

func (f typedText) array(vertexType, name string) (matrix, error) {
	return f.vertices(vertexType).matrix(name)
}

// vertices returns the folder of a vertex type.
func (f typedText) vertices(name string) textFolder {
	return textFolder{filepath.Join(f.raw, nodeFeatures, name)}
}

func (f typedText) more(vertexType string) []string {
	return slices.DeleteFunc(f.vertices(vertexType).more(), func(name string) bool { return arrayName(name) != name })
}

func (f typedText) checkLists(types []string, relations []triplet) error {
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

func (f typedText) unread(types []string, relations []triplet) (names []string) {
	known := []string{"num-node-dict", "triplet-type-list", "nodetype-has-label", "relations", nodeFeatures, "node-label"}
	names = slices.DeleteFunc(append(f.textFolder.more(), f.unknown()...), func(name string) bool { return slices.Contains(known, name) })
	for _, t := range types {
		isRead := func(name string) bool { return arrayName(name) == name }
		names = append(names, slices.DeleteFunc(f.vertices(t).more(), isRead)...)
		names = append(names, f.vertices(t).unknown()...)
	}
	for _, r := range relations { // such as edge_reltype.csv.gz
		names = append(names, f.relation(r).more()...)
		names = append(names, f.relation(r).unknown()...)
	}
	return names
}

func (f typedText) labelled() ([]string, error) {
	path := f.path("nodetype-has-label")
	names, values, err := f.header(path)
	if err != nil {
		return nil, err
	}
	var labelled []string
	for k, name := range names {
		if has, err := strconv.ParseBool(values[k]); err != nil {
			return nil, refusal.Errorf("%s: %.40q is neither True nor False; %s", path, values[k], fetchAgain)
		} else if has {
			labelled = append(labelled, name)
		}
	}
	return labelled, nil
}

func (f typedText) labels(vertexType string) (matrix, error) {
	return textFolder{filepath.Join(f.raw, "node-label", vertexType)}.labels()
}
