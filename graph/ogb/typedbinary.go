package ogb

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/refusal"
)

// typedBinary is the layout of archives for several types: one for each kind of array, with a key for each
// relation or type.
type typedBinary struct {
	raw                              string
	vertices, counts, lists, ofLabel *arrays.Archive
	ofVertices, ofEdges              *arrays.Archive            // features; nil where there are none
	others                           map[string]*arrays.Archive // of other arrays of vertices, by name
	open                             []*arrays.Archive
}

func openTypedBinary(raw string) (*typedBinary, error) {
	f := &typedBinary{raw: raw, others: map[string]*arrays.Archive{}}
	for _, a := range []struct {
		name   string
		to     **arrays.Archive
		always bool
	}{
		{"num_nodes_dict", &f.vertices, true},
		{"num_edges_dict", &f.counts, true},
		{"edge_index_dict", &f.lists, true},
		{"node-label", &f.ofLabel, true},
		{"node_feat_dict", &f.ofVertices, false},
		{"edge_feat_dict", &f.ofEdges, false},
	} {
		if !a.always && !has(raw, a.name+".npz") {
			continue
		}
		archive, err := arrays.OpenArchive(filepath.Join(raw, a.name+".npz"))
		if err != nil {
			f.close()
			return nil, refusal.Advise(err, fetchAgain)
		}
		*a.to = archive
		f.open = append(f.open, archive)
	}
	for _, file := range entries(raw) {
		name, ok := strings.CutSuffix(file, "_dict.npz")
		if !ok || name == "node_feat" || arrayName(name) != name {
			continue
		}
		archive, err := arrays.OpenArchive(filepath.Join(raw, file))
		if err != nil {
			f.close()
			return nil, refusal.Advise(err, fetchAgain)
		}
		f.others[name] = archive
		f.open = append(f.open, archive)
	}
	return f, nil
}

func (f *typedBinary) name() string { return f.raw }

func (f *typedBinary) close() {
	for _, a := range f.open {
		a.Close()
	}
}

// one reads the only integer of the array of a key, which must be there.
func one(a *arrays.Archive, key string) (int64, error) {
	if err := need(a, key); err != nil {
		return 0, err
	}
	array, err := a.Array(key)
	if err != nil {
		return 0, err
	}
	values, err := array.Int64s()
	if err != nil {
		return 0, a.Refuse(key, err)
	}
	if len(values) != 1 || values[0] < 0 {
		return 0, a.Refuse(key, refusal.Errorf("holds %d values, where one count is expected; %s", len(values), fetchAgain))
	}
	return values[0], nil
}

func (f *typedBinary) types() ([]graph.VertexType, error) {
	var types []graph.VertexType
	for _, name := range f.vertices.Names() {
		if err := checkName(f.vertices.Path, name); err != nil {
			return nil, err
		}
		count, err := one(f.vertices, name)
		if err != nil {
			return nil, err
		}
		types = append(types, graph.VertexType{Type: name, Count: int(count)})
	}
	return types, nil
}

func (f *typedBinary) relations() ([]triplet, error) {
	var list []triplet
	for _, key := range f.lists.Names() {
		names := strings.Split(key, "___")
		if len(names) != 3 {
			return nil, refusal.Errorf("%s: %.100q is no relation, HEAD___NAME___TAIL; %s", f.lists.Path, key, fetchAgain)
		}
		list = append(list, triplet(names))
	}
	return list, nil
}

func (f *typedBinary) edges(r triplet, within ends) (edges, int64, error) {
	count, err := one(f.counts, r.String())
	if err != nil {
		return nil, 0, err
	}
	list, err := openStoredEdges(f.lists, r.String(), within)
	return list, count, err
}

// optional opens the matrix of a key, and nil where there is none.
func optional(a *arrays.Archive, key string) (matrix, error) {
	if a == nil || !a.Has(key) {
		return nil, nil
	}
	return openStored(a, key)
}

func (f *typedBinary) edgeFeatures(r triplet) (matrix, error) { return optional(f.ofEdges, r.String()) }

func (f *typedBinary) features(vertexType string) (matrix, error) {
	return optional(f.ofVertices, vertexType)
}

func (f *typedBinary) more(vertexType string) (names []string) {
	for name, archive := range f.others {
		if archive.Has(vertexType) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (f *typedBinary) array(vertexType, name string) (matrix, error) {
	return openStored(f.others[name], vertexType)
}

func (f *typedBinary) checkLists(types []string, relations []triplet) error {
	ofTypes := append(slices.Collect(maps.Values(f.others)), f.ofVertices)
	for _, c := range []struct {
		archives []*arrays.Archive
		listed   []string
		list     string
	}{
		{ofTypes, types, f.vertices.Path},
		{[]*arrays.Archive{f.counts, f.ofEdges}, namesOf(relations), f.lists.Path},
	} {
		for _, a := range c.archives {
			if a == nil {
				continue
			}
			if err := checkListed(a.Path, a.Names(), c.listed, c.list); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *typedBinary) unread([]string, []triplet) (names []string) {
	for _, a := range f.open {
		names = append(names, a.Others()...)
	}
	for _, file := range entries(f.raw) {
		if read := func(a *arrays.Archive) bool { return filepath.Base(a.Path) == file }; !slices.ContainsFunc(f.open, read) {
			names = append(names, strings.TrimSuffix(file, "_dict.npz"))
		}
	}
	return names
}

func (f *typedBinary) labelled() ([]string, error) { return f.ofLabel.Names(), nil }

func (f *typedBinary) labels(vertexType string) (matrix, error) {
	return openStored(f.ofLabel, vertexType)
}
