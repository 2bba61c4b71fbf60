package dgltest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Division says how a graph is divided.
type Division struct {
	K     int
	Parts [][]int // by vertex type: the partition of each vertex
	Names Names
	// Original puts the vertices' ids from before into a file of each partition, as DGL's tools do.
	Original bool
}

// Divide writes a graph as DGL divides it into dir, with the JSON file name.json. Vertices are numbered anew:
// by partition, then by type, and within both in their order. Each partition has the edges into its own
// vertices first, and then the edges that lead out of it.
func Divide(dir, name string, g *Graph, d Division) error {
	p := newPlan(g, d)
	doc := map[string]any{
		"graph_name": name, "part_method": "metis", "num_parts": d.K, "halo_hops": 1,
		"num_nodes": len(p.vertices), "num_edges": p.edges(),
		"node_map": p.vertexMap(), "edge_map": p.edgeMap(), "ntypes": p.vertexTypes(),
		"etypes": p.edgeTypes(),
	}
	for k := range d.K {
		part := fmt.Sprintf("part%d", k)
		if err := os.MkdirAll(filepath.Join(dir, part), 0o777); err != nil {
			return err
		}
		doc[fmt.Sprintf("part-%d", k)] = map[string]string{
			"part_graph": part + "/graph.dgl", "node_feats": part + "/node_feat.dgl",
			"edge_feats": part + "/edge_feat.dgl",
		}
		files := map[string][]byte{
			"graph.dgl":     Graphs(nil, p.graph(k)),
			"node_feat.dgl": File(p.vertexTensors(k)), "edge_feat.dgl": File(p.edgeTensors(k)),
		}
		if d.Original {
			files["orig_nids.dgl"] = File(p.original(k))
		}
		for file, content := range files {
			if err := os.WriteFile(filepath.Join(dir, part, file), content, 0o666); err != nil {
				return err
			}
		}
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), text, 0o666)
}

// plan is a graph with its vertices numbered anew.
type plan struct {
	g        *Graph
	d        Division
	vertices []vertex  // by new id
	id       [][]int64 // the new id of each vertex, by type
}

type vertex struct{ part, kind, number int }

func newPlan(g *Graph, d Division) *plan {
	p := &plan{g: g, d: d, id: make([][]int64, len(g.Vertices))}
	for t, vertices := range g.Vertices {
		p.id[t] = make([]int64, vertices.Count)
	}
	for part := range d.K {
		for t, vertices := range g.Vertices {
			for v := range vertices.Count {
				if d.Parts[t][v] == part {
					p.id[t][v] = int64(len(p.vertices))
					p.vertices = append(p.vertices, vertex{part, t, v})
				}
			}
		}
	}
	return p
}

// own returns the numbers of a partition's vertices of a type.
func (p *plan) own(part, kind int) (numbers []int) {
	for _, v := range p.vertices {
		if v.part == part && v.kind == kind {
			numbers = append(numbers, v.number)
		}
	}
	return numbers
}

// ownEdges returns the numbers of a partition's edges of a relation.
func (p *plan) ownEdges(part, relation int) (numbers []int) {
	r := &p.g.Relations[relation]
	for k, v := range r.To {
		if p.d.Parts[r.Target][v] == part {
			numbers = append(numbers, k)
		}
	}
	return numbers
}

func (p *plan) edges() (n int) {
	for _, r := range p.g.Relations {
		n += len(r.From)
	}
	return n
}

func (p *plan) edgeType(relation int) string {
	r := &p.g.Relations[relation]
	if p.d.Names != Modern {
		return r.Name
	}
	return p.g.Vertices[r.Source].Type + ":" + r.Name + ":" + p.g.Vertices[r.Target].Type
}

func (p *plan) vertexTypes() map[string]int {
	ids := map[string]int{}
	for t, v := range p.g.Vertices {
		ids[v.Type] = t
	}
	return ids
}

func (p *plan) edgeTypes() map[string]int {
	ids := map[string]int{}
	for k := range p.g.Relations {
		ids[p.edgeType(k)] = k
	}
	return ids
}

// spans are ranges of ids by type, with the number of each type's ids in a partition.
func (p *plan) spans(names []string, count func(part, kind int) int) any {
	all, ends, last := map[string][][2]int{}, []int{}, 0
	for part := range p.d.K {
		for k, name := range names {
			n := count(part, k)
			all[name] = append(all[name], [2]int{last, last + n})
			last += n
		}
		ends = append(ends, last)
	}
	if p.d.Names == Oldest {
		return ends
	}
	return all
}

func (p *plan) vertexMap() any {
	names := []string{}
	for _, v := range p.g.Vertices {
		names = append(names, v.Type)
	}
	return p.spans(names, func(part, kind int) int { return len(p.own(part, kind)) })
}

func (p *plan) edgeMap() any {
	names := []string{}
	for k := range p.g.Relations {
		names = append(names, p.edgeType(k))
	}
	return p.spans(names, func(part, relation int) int { return len(p.ownEdges(part, relation)) })
}

// graph is that of a partition.
func (p *plan) graph(part int) *Graph {
	local := map[int64]int64{} // its number of each new id
	var ids, before []int64
	var kinds []int32
	add := func(id int64) int64 {
		if at, there := local[id]; there {
			return at
		}
		v := p.vertices[id]
		local[id] = int64(len(ids))
		ids = append(ids, id)
		before = append(before, int64(v.number))
		kinds = append(kinds, int32(v.kind))
		return local[id]
	}
	for id, v := range p.vertices {
		if v.part == part {
			add(int64(id))
		}
	}
	r := Relation{Name: "_E", Formats: CSC}
	var types []int32
	var inner []uint8
	for _, own := range []bool{true, false} {
		for k, edges := range p.g.Relations {
			for e := range edges.From {
				leaves := p.d.Parts[edges.Source][edges.From[e]] == part
				if into := p.d.Parts[edges.Target][edges.To[e]] == part; into != own || !own && !leaves {
					continue
				}
				r.From, r.To = append(r.From, add(p.id[edges.Source][edges.From[e]])),
					append(r.To, add(p.id[edges.Target][edges.To[e]]))
				types = append(types, int32(k))
				mark := uint8(0)
				if own {
					mark = 1
				}
				inner = append(inner, mark)
			}
		}
	}
	r.Tensors = Tensors{"inner_edge": Of(inner)}
	vertices := Tensors{"_ID": Of(ids)}
	if len(p.g.Relations) > 1 || len(p.g.Vertices) > 1 {
		r.Tensors["_TYPE"], vertices["_TYPE"] = Of(types), Of(kinds)
	}
	if p.d.Names != Modern {
		vertices["orig_id"] = Of(before)
	}
	return &Graph{
		Vertices:  []Vertices{{Type: "_N", Count: len(ids), Tensors: vertices}},
		Relations: []Relation{r}, Old: p.d.Names != Modern,
	}
}

// key returns what a tensor is called in a partition's file.
func (p *plan) key(kind, name string) string {
	if p.d.Names == Oldest {
		return name
	}
	return kind + "/" + name
}

func (p *plan) vertexTensors(part int) Tensors {
	all := Tensors{}
	for t, v := range p.g.Vertices {
		for name, from := range v.Tensors {
			all[p.key(v.Type, name)] = from.Rows(p.own(part, t))
		}
	}
	return all
}

func (p *plan) edgeTensors(part int) Tensors {
	all := Tensors{}
	for k, r := range p.g.Relations {
		for name, from := range r.Tensors {
			all[p.key(p.edgeType(k), name)] = from.Rows(p.ownEdges(part, k))
		}
	}
	return all
}

// original returns the numbers from before of a partition's vertices.
func (p *plan) original(part int) Tensors {
	all := Tensors{}
	for t, v := range p.g.Vertices {
		numbers := []int64{}
		for _, n := range p.own(part, t) {
			numbers = append(numbers, int64(n))
		}
		all[v.Type] = Of(numbers)
	}
	return all
}
