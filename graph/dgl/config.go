package dgl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"weft/internal/document"
	"weft/internal/refusal"
)

const (
	maxConfig = 64 << 20 // bytes of the JSON file
	maxParts  = 1024     // as many as a store holds
	oneType   = "_N"     // of the vertices of a graph that has one
	oneTypes  = "_E"     // of its edges, before DGL 1.0
)

// config is the JSON file of a divided graph. Its ids are those of the divided graph: the vertices of a
// partition have consecutive ids, and so have the vertices of a type within the partition.
type config struct {
	parts       []partFiles
	vertexTypes []string
	vertexMap   *idMap
	edgeTypes   []string
	edgeEnds    [][2]int // the types of each type's sources and targets; −1: the file does not say
	edgeMap     [][]span // by type; nil: the file has none
	vertices    int
	edges       int64 // −1: the file does not say
}

// partFiles are the files of a partition, by their names in the folder of the JSON file.
type partFiles struct{ graph, vertexTensors, edgeTensors string }

// span is a range of ids.
type span struct{ start, end int64 }

func (s span) count() int64 { return s.end - s.start }

// configDocument is the file's JSON, of any version of DGL.
type configDocument struct {
	Parts    int             `json:"num_parts"`
	Vertices int64           `json:"num_nodes"`
	Edges    *int64          `json:"num_edges"`
	NodeMap  json.RawMessage `json:"node_map"`
	EdgeMap  json.RawMessage `json:"edge_map"`
	NTypes   map[string]int  `json:"ntypes"`
	ETypes   map[string]int  `json:"etypes"`
}

// partDocument is what the file says of a partition.
type partDocument struct {
	Graph     string `json:"part_graph"`
	GraphBolt string `json:"part_graph_graphbolt"`
	NodeFeats string `json:"node_feats"`
	EdgeFeats string `json:"edge_feats"`
}

// readConfig reads the JSON file of a divided graph.
func readConfig(path string) (*config, error) {
	text, err := document.Read(path, maxConfig)
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(text)
	return c, refusal.In(path, err)
}

// parseConfig parses the JSON text of a file.
func parseConfig(text []byte) (*config, error) {
	var d configDocument
	var parts map[string]json.RawMessage
	err := json.Unmarshal(text, &d)
	if err == nil {
		err = json.Unmarshal(text, &parts)
	}
	if err != nil {
		return nil, fmt.Errorf("not the JSON of a graph that DGL divided: %w", err)
	}
	if d.Parts < 1 || d.Parts > maxParts {
		return nil, fmt.Errorf("num_parts is %d, where 1 to %d partitions are read", d.Parts, maxParts)
	}
	if d.Vertices < 1 || d.Vertices > math.MaxInt32 {
		return nil, fmt.Errorf("num_nodes is %d, where 1 to %d vertices are read", d.Vertices, math.MaxInt32)
	}
	c := &config{vertices: int(d.Vertices), edges: -1}
	if d.Edges != nil {
		c.edges = *d.Edges
		if c.edges < 0 {
			return nil, fmt.Errorf("num_edges is %d", c.edges)
		}
	}
	if c.vertexTypes, err = inOrder(d.NTypes, oneType); err != nil {
		return nil, fmt.Errorf("ntypes: %w", err)
	}
	if c.edgeTypes, err = inOrder(d.ETypes, oneTypes); err != nil {
		return nil, fmt.Errorf("etypes: %w", err)
	}
	if c.edgeEnds, err = c.joined(); err != nil {
		return nil, fmt.Errorf("etypes: %w", err)
	}
	vertexSpans, err := spans(d.NodeMap, c.vertexTypes, d.Parts)
	if err == nil {
		c.vertexMap, err = newIDMap(vertexSpans, d.Vertices)
	}
	if err != nil {
		return nil, fmt.Errorf("node_map: %w", err)
	}
	if len(d.EdgeMap) > 0 {
		if c.edgeMap, err = spans(d.EdgeMap, c.edgeTypes, d.Parts); err == nil {
			err = checkCovered(c.edgeMap, c.edges)
		}
		if err != nil {
			return nil, fmt.Errorf("edge_map: %w", err)
		}
	}
	for p := range d.Parts {
		key := fmt.Sprintf("part-%d", p)
		files, err := parsePart(parts[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		c.parts = append(c.parts, files)
	}
	return c, nil
}

// parsePart parses the description of a partition.
func parsePart(text json.RawMessage) (files partFiles, err error) {
	if text == nil {
		return files, errors.New("is not there")
	}
	var d partDocument
	if err := json.Unmarshal(text, &d); err != nil {
		return files, err
	}
	if d.Graph == "" && d.GraphBolt != "" {
		return files, fmt.Errorf("%.80q is a graph of GraphBolt, a pickle, which is never read: divide "+
			"the graph with use_graphbolt=False", d.GraphBolt)
	}
	for _, f := range []struct {
		key, path string
		to        *string
	}{
		{"part_graph", d.Graph, &files.graph},
		{"node_feats", d.NodeFeats, &files.vertexTensors},
		{"edge_feats", d.EdgeFeats, &files.edgeTensors},
	} {
		switch {
		case f.path == "":
			return files, fmt.Errorf("names no %s, and DGL writes one, if without tensors", f.key)
		case !filepath.IsLocal(f.path):
			return files, fmt.Errorf("%s: it names %.80q, which is not within its folder: only files "+
				"there are read", f.key, f.path)
		}
		*f.to = f.path
	}
	return files, nil
}

// inOrder lists the names of types by their numbers. If the file has none, there is one type, called
// fallback.
func inOrder(ids map[string]int, fallback string) ([]string, error) {
	if len(ids) == 0 {
		return []string{fallback}, nil
	}
	names := make([]string, len(ids))
	for name, id := range ids {
		if id < 0 || id >= len(ids) || names[id] != "" || name == "" {
			return nil, fmt.Errorf("the type %.40q has the number %d among %d", name, id, len(ids))
		}
		names[id] = name
	}
	return names, nil
}

// spans reads the ids of each type in each partition: [start, end) of each; or, as DGL wrote them before 0.6,
// where each ends and the next begins. If there is one type, its ids may come without its name.
func spans(text json.RawMessage, types []string, parts int) ([][]span, error) {
	var file string
	if json.Unmarshal(text, &file) == nil {
		return nil, fmt.Errorf("%.80q is a file, as of a graph that was divided with reshuffle=False: "+
			"divide it again with reshuffle=True", file)
	}
	byType := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &byType); err != nil {
		if len(types) != 1 {
			return nil, fmt.Errorf("one list for %d types", len(types))
		}
		byType[types[0]] = text
	}
	if len(byType) != len(types) {
		return nil, fmt.Errorf("lists of %d types, of which there are %d", len(byType), len(types))
	}
	all := make([][]span, len(types))
	ends := make([][]int64, len(types))
	for t, name := range types {
		list, there := byType[name]
		if !there {
			return nil, fmt.Errorf("no list for the type %.40q", name)
		}
		var pairs [][]int64
		if json.Unmarshal(list, &pairs) == nil {
			for _, pair := range pairs {
				if len(pair) != 2 {
					return nil, fmt.Errorf("a range of %d numbers", len(pair))
				}
				all[t] = append(all[t], span{pair[0], pair[1]})
			}
		} else if err := json.Unmarshal(list, &ends[t]); err != nil {
			return nil, err
		}
		if n := max(len(all[t]), len(ends[t])); n != parts {
			return nil, fmt.Errorf("ranges of %d partitions, of which there are %d", n, parts)
		}
	}
	last := int64(0)
	for p := range parts {
		for t := range types {
			if ends[t] != nil {
				all[t] = append(all[t], span{last, ends[t][p]})
			}
			last = all[t][p].end
		}
	}
	return all, nil
}

// checkCovered checks that ranges cover ids ids, each once; −1: any number.
func checkCovered(byType [][]span, ids int64) error {
	all := slices.Concat(byType...)
	slices.SortFunc(all, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	last := int64(0)
	for _, s := range all {
		switch {
		case s.start < 0 || s.end < s.start:
			return fmt.Errorf("a range from %d to %d", s.start, s.end)
		case s.count() == 0:
			continue
		case s.start != last:
			return fmt.Errorf("a range begins at %d, where the ids before it end at %d", s.start, last)
		}
		last = s.end
	}
	if ids >= 0 && last != ids {
		return fmt.Errorf("the ranges end at %d, and num_edges is %d", last, ids)
	}
	return nil
}

// idMap finds the partition and the type of an id.
type idMap struct {
	spans  [][]span  // by type and partition
	bases  [][]int64 // how many ids of the type come before the span
	starts []int64   // the starts of all spans that are not empty, ascending
	owners []owner   // the partition and type of each of these spans
	firsts []int64   // by partition: its first id; then the number of all ids
}

type owner struct{ p, t int }

// newIDMap checks that spans cover so many ids, and that the ids of a partition follow those of the partition
// before it.
func newIDMap(spans [][]span, ids int64) (*idMap, error) {
	m := &idMap{spans: spans, bases: make([][]int64, len(spans))}
	counts := make([]int64, len(spans))
	last := int64(0)
	for p := range spans[0] {
		m.firsts = append(m.firsts, last)
		var list []int // the types that exist
		for t := range spans {
			s := spans[t][p]
			if s.start < 0 || s.end < s.start || s.end > ids {
				return nil, fmt.Errorf("a range from %d to %d of %d ids", s.start, s.end, ids)
			}
			m.bases[t] = append(m.bases[t], counts[t])
			counts[t] += s.count()
			if s.count() > 0 {
				list = append(list, t)
			}
		}
		slices.SortFunc(list, func(a, b int) int { return cmp.Compare(spans[a][p].start, spans[b][p].start) })
		for _, t := range list {
			s := spans[t][p]
			if s.start != last {
				return nil, fmt.Errorf("a range of partition %d begins at %d, and the one before "+
					"it ends at %d", p, s.start, last)
			}
			last = s.end
			m.starts, m.owners = append(m.starts, s.start), append(m.owners, owner{p, t})
		}
	}
	if last != ids {
		return nil, fmt.Errorf("the ranges end at %d, and there are %d ids", last, ids)
	}
	m.firsts = append(m.firsts, ids)
	return m, nil
}

// at returns the partition and the type of an id.
func (m *idMap) at(id int64) (p, t int) {
	k, found := slices.BinarySearch(m.starts, id)
	if !found {
		k--
	}
	return m.owners[k].p, m.owners[k].t
}

// number returns the number of an id among the ids of its type.
func (m *idMap) number(id int64) int64 {
	p, t := m.at(id)
	return m.bases[t][p] + id - m.spans[t][p].start
}

// count returns how many ids a type has.
func (m *idMap) count(t int) int {
	p := len(m.spans[t]) - 1
	return int(m.bases[t][p] + m.spans[t][p].count())
}

// owned returns the number of ids of a partition.
func (m *idMap) owned(p int) int { return int(m.firsts[p+1] - m.firsts[p]) }

// joined returns the vertex types that each edge type joins, if its name says it.
func (c *config) joined() ([][2]int, error) {
	all := make([][2]int, len(c.edgeTypes))
	numbers := make(map[string]int, len(c.vertexTypes))
	for t, name := range slices.Backward(c.vertexTypes) { // of equal names the first counts
		numbers[name] = t
	}
	for k, name := range c.edgeTypes {
		source, _, target := canonical(name)
		switch {
		case len(c.vertexTypes) == 1: // both ends are of the only type
		case source == "":
			all[k] = [2]int{-1, -1}
		default:
			from, isFrom := numbers[source]
			to, isTo := numbers[target]
			all[k] = [2]int{from, to}
			if !isFrom || !isTo {
				return nil, fmt.Errorf("%.80q joins vertex types that are not there", name)
			}
		}
	}
	return all, nil
}

// canonical splits the name of an edge type, SOURCE:RELATION:TARGET. Before DGL 1.0 it was only RELATION.
func canonical(name string) (source, relation, target string) {
	parts := strings.Split(name, ":")
	if len(parts) != 3 {
		return "", name, ""
	}
	return parts[0], parts[1], parts[2]
}
