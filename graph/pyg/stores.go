package pyg

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/npy"
	"weft/internal/pickle"
	"weft/internal/refusal"
	"weft/internal/torchfile"
)

// stores are the parts of a file: the fields of each type of vertices and of edges. A graph without types has
// one store for both.
type stores struct {
	typed           bool
	vertices, edges []*store
	global          []string // fields of the graph as a whole
}

// store has the fields of a type of vertices or edges.
type store struct {
	arrays.Fields // fields of the store

	reader *reader
	name   string // of the type; empty where the graph has no types

	keys   []string // in the order of the file
	fields map[string]any
	used   map[string]bool // fields that were read
	opened map[string]bool // fields that were opened in blocks
	// dropped are fields of the graphs of a list that are not joined.
	dropped []string

	count int // vertices

	relation string
	ends     [2]string // types of sources and targets
	key      string    // name of the field that lists the edges
	edges    streamed.Edges
	list     graph.Edges // edges in memory
	sizes    [2]int      // numbers of sources and targets; 0: the edges say
	ids      *[2]int     // largest id of the sources and targets, plus one; nil: not known yet
}

// newStore makes a store of the given fields.
func newStore(r *reader, name string, fields map[string]any) *store {
	s := &store{reader: r, name: name, fields: fields, used: map[string]bool{}, opened: map[string]bool{}}
	s.Fields = arrays.Fields{Source: s}
	return s
}

// These bound the fields of a file: a short pickle may name the same dict many times.
const (
	maxFields = 1000 // fields of a store
	maxStores = 1 << 12
)

// stores finds the fields in the value of a file.
func (r *reader) stores(value any) (*stores, error) {
	switch v := value.(type) {
	case *pickle.Object:
		state := attributesOf(v)
		if state == nil {
			return nil, r.refusef("an object of class %.80q without its attributes: save it again",
				string(v.Class))
		}
		switch classOf(v) {
		case dataClass:
			if _, ok := state.Get("_store"); !ok { // version 1
				return r.plain(state)
			}
			return r.plain(r.mapping(state, "_store"))
		case heteroClass:
			return r.hetero(state)
		}
	case *pickle.Dict:
		if slices.ContainsFunc(v.Items, func(item pickle.Item) bool {
			_, ok := item.Key.(string)
			return !ok
		}) {
			return r.typedDict(v)
		}
		return r.plain(v)
	}
	return nil, r.refusef("holds %s, no graph of PyTorch Geometric: give a Data, a HeteroData or a Batch, "+
		"or its to_dict()", kind(value))
}

// classOf returns the class of an object. A Batch has the fields of its graphs, and counts as one of their
// class. PyG makes a class of batches for each class of graphs, by a call of batchMaker with Batch and the
// class of the graphs.
func classOf(o *pickle.Object) pickle.Class {
	if o.Class != batchMaker || len(o.Args) != 2 || o.Args[0] != batchClass {
		return o.Class
	}
	class, _ := o.Args[1].(pickle.Class)
	return class
}

// noTensor is the error for a value that is no tensor.
func noTensor(value any) error {
	if _, sparse := value.(*torchfile.Sparse); sparse {
		return errors.New("is a sparse tensor: save it after .to_dense()")
	}
	return fmt.Errorf("is %s, no tensor", kind(value))
}

// kind says what a value is.
func kind(value any) string {
	switch v := value.(type) {
	case *torchfile.Tensor, *torchfile.Sparse:
		return "a tensor"
	case *pickle.Object:
		return fmt.Sprintf("an object of class %.80q", string(classOf(v)))
	case *pickle.Array:
		return "an array"
	}
	return "a plain value"
}

// mapping returns the fields of a storage, an attribute: the dict _mapping.
func (r *reader) mapping(attributes *pickle.Dict, key string) *pickle.Dict {
	value, _ := attributes.Get(key)
	return fieldsOf(value)
}

// fieldsOf returns the fields of a storage, nil if it has none.
func fieldsOf(storage any) *pickle.Dict {
	switch s := storage.(type) {
	case *pickle.Dict:
		return s
	case *pickle.Object:
		if state := attributesOf(s); state != nil {
			value, _ := state.Get("_mapping")
			fields, _ := value.(*pickle.Dict)
			return fields
		}
	}
	return nil
}

// attributesOf returns the attributes of an object of PyTorch Geometric, nil if it has none or too many.
func attributesOf(value any) *pickle.Dict {
	o, ok := value.(*pickle.Object)
	if !ok {
		return nil
	}
	attributes, _ := o.State.(*pickle.Dict)
	if attributes != nil && len(attributes.Items) > maxFields {
		return nil
	}
	return attributes
}

// plain makes the stores of a graph without types.
func (r *reader) plain(fields *pickle.Dict) (*stores, error) {
	s, err := r.store("", fields)
	if err != nil {
		return nil, err
	}
	if _, ok := s.fields["edge_index_dict"]; ok {
		return r.dicts(s)
	}
	if n, ok := s.fields["__num_nodes__"]; ok { // version 1
		s.fields["num_nodes"], s.used["__num_nodes__"] = n, true
	}
	return &stores{vertices: []*store{s}, edges: []*store{s}}, nil
}

// hetero makes the stores of a HeteroData object.
func (r *reader) hetero(attributes *pickle.Dict) (*stores, error) {
	var parts [2][]pickle.Item
	for k, key := range []string{"_node_store_dict", "_edge_store_dict"} {
		value, _ := attributes.Get(key)
		dict, ok := value.(*pickle.Dict)
		if !ok {
			return nil, r.refusef("a HeteroData object without %s: save it again", key)
		}
		parts[k] = dict.Items
	}
	return r.typed(parts[0], parts[1], r.mapping(attributes, "_global_store"))
}

// typedDict makes the stores from the result of a HeteroData's to_dict: a dict for each type and, beside
// them, _global_store. Before version 2.4 the fields of the whole graph were beside them.
func (r *reader) typedDict(all *pickle.Dict) (*stores, error) {
	var vertices, edges []pickle.Item
	global := &pickle.Dict{}
	for _, item := range all.Items {
		name, named := item.Key.(string)
		fields, ok := item.Value.(*pickle.Dict)
		switch {
		case !named:
			edges = append(edges, item)
		case name == "_global_store" && ok:
			global = fields
		case ok:
			vertices = append(vertices, item)
		default:
			global.Items = append(global.Items, item)
		}
	}
	return r.typed(vertices, edges, global)
}

// typed makes the stores of a graph with types: of vertices, whose keys are names, and of edges, whose keys
// are (source, relation, target).
func (r *reader) typed(vertices, edges []pickle.Item, global *pickle.Dict) (*stores, error) {
	s := &stores{typed: true}
	if len(vertices)+len(edges) > maxStores {
		return nil, r.refusef("%d types: at most %d are read", len(vertices)+len(edges), maxStores)
	}
	known := map[string]bool{}
	for _, item := range vertices {
		name, ok := item.Key.(string)
		if !ok {
			return nil, r.refusef("a type of vertices has no name: save it again")
		}
		v, err := r.store(name, fieldsOf(item.Value))
		if err != nil {
			return nil, err
		}
		if known[name] {
			return nil, r.refusef("two vertex types are called %.40q: save it again", name)
		}
		known[name] = true
		s.vertices = append(s.vertices, v)
	}
	for _, item := range edges {
		parts, ok := edgeType(item.Key)
		if !ok {
			return nil, r.refusef("a type of edges is not called (source, relation, target): save it again")
		}
		e, err := r.store(strings.Join(parts[:], "__"), fieldsOf(item.Value))
		if err != nil {
			return nil, err
		}
		e.relation, e.ends = parts[1], [2]string{parts[0], parts[2]}
		for _, end := range e.ends {
			if known[end] {
				continue
			}
			// PyG has no store for a type without fields.
			v, err := r.store(end, &pickle.Dict{})
			if err != nil {
				return nil, err
			}
			known[end] = true
			s.vertices = append(s.vertices, v)
		}
		s.edges = append(s.edges, e)
	}
	if len(s.edges) == 0 {
		return nil, r.refusef("the graph has no type of edges: give one with edges")
	}
	if global != nil {
		all, err := r.store("", global)
		if err != nil {
			return nil, err
		}
		s.global = all.left()
	}
	return s, nil
}

// edgeType takes the name of a type of edges apart.
func edgeType(key any) (parts [3]string, ok bool) {
	t, ok := key.(pickle.Tuple)
	if !ok || len(t) != len(parts) {
		return parts, false
	}
	for k := range parts {
		if parts[k], ok = t[k].(string); !ok {
			return parts, false
		}
	}
	return parts, true
}

// dicts makes the stores of a graph whose fields are dicts by type: x_dict, edge_index_dict and so on, as the
// Open Graph Benchmark has them.
func (r *reader) dicts(all *store) (*stores, error) {
	var vertices, edges []pickle.Item
	at := map[any]*pickle.Dict{}
	global := &pickle.Dict{}
	for _, field := range all.keys {
		key, ok := strings.CutSuffix(field, "_dict")
		dict, okDict := all.fields[field].(*pickle.Dict)
		if !ok || !okDict || len(dict.Items) > maxStores {
			global.Items = append(global.Items, pickle.Item{Key: field, Value: all.fields[field]})
			continue
		}
		if err := r.charge(dict); err != nil {
			return nil, err
		}
		for _, item := range dict.Items {
			name, list := item.Key, &vertices
			if parts, ok := edgeType(name); ok {
				name, list = parts, &edges
			} else if _, ok := name.(string); !ok {
				return nil, r.refusef("a type in %.40q has no name: save it again", field)
			}
			if at[name] == nil {
				at[name] = &pickle.Dict{}
				*list = append(*list, pickle.Item{Key: item.Key, Value: at[name]})
			}
			at[name].Items = append(at[name].Items, pickle.Item{Key: key, Value: item.Value})
		}
	}
	return r.typed(vertices, edges, global)
}

// store makes a store of fields. A field that is None is missing.
func (r *reader) store(name string, fields *pickle.Dict) (*store, error) {
	s := newStore(r, name, map[string]any{})
	if fields == nil || len(fields.Items) > maxFields {
		return nil, r.refusef("the fields%s are not a dict of at most %d tensors: save it again", s.typeSuffix(),
			maxFields)
	}
	if err := r.charge(fields); err != nil {
		return nil, err
	}
	for _, item := range fields.Items {
		key, ok := item.Key.(string)
		if !ok {
			return nil, r.refusef("a field%s has no name: save it again", s.typeSuffix())
		}
		if _, twice := s.fields[key]; !twice {
			s.keys = append(s.keys, key)
		}
		s.fields[key] = item.Value
	}
	return s, nil
}

// charge counts the fields of a dict. A file may name one dict any number of times, and its fields take
// memory each time.
func (r *reader) charge(fields *pickle.Dict) error {
	const bytes = 4 // bytes of the file for each field, at least
	r.fields += int64(len(fields.Items))
	if r.fields > r.size/bytes {
		return r.refusef("its types have %d fields, more than a file of %d bytes holds: save it again",
			r.fields, r.size)
	}
	return nil
}

// typeSuffix returns words for messages that name the type of the store.
func (s *store) typeSuffix() string {
	if s.name == "" {
		return ""
	}
	return fmt.Sprintf(" of %.80q", s.name)
}

// left names the fields that were not read.
func (s *store) left() (names []string) {
	for _, key := range s.keys {
		if !s.used[key] && s.fields[key] != nil {
			names = append(names, s.quoted(key))
		}
	}
	for _, key := range s.dropped {
		names = append(names, s.quoted(key))
	}
	return names
}

// left returns a note that names the fields that were not read; of many, the first.
func (s *stores) left() []string {
	const most = 20
	names := s.global
	for _, v := range s.vertices {
		names = append(names, v.left()...)
	}
	if s.typed {
		for _, e := range s.edges {
			names = append(names, e.left()...)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"left out: " + refusal.List(names, most)}
}

// quoted returns the name of a field and its type.
func (s *store) quoted(key string) string { return fmt.Sprintf("%.40q%s", key, s.typeSuffix()) }

// Refuse puts the file and the field in front of an error. nil stays nil.
func (s *store) Refuse(key string, err error) error {
	var floats npy.FloatsError
	if t, ok := s.fields[key].(*torchfile.Tensor); ok && errors.As(err, &floats) {
		err = fmt.Errorf("a tensor of %s, where integers are due: save it after .long()", t.Type())
	}
	return refusal.In(s.reader.path+": "+s.quoted(key), err)
}
