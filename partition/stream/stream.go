// Package stream divides graphs that METIS cannot hold. It reads the edges in order, a few times, and keeps a
// few numbers for each vertex:
//
//  1. label propagation makes clusters of bounded size (Meyerhenke, Sanders and Schulz, "Partitioning Complex
//     Networks via Size-Constrained Clustering", SEA 2014; with edges on disk: Akhremtsev, Sanders and Schulz,
//     "(Semi-)External Algorithms for Graph Partitioning and Clustering", ALENEX 2015);
//  2. the clusters are contracted, and METIS divides the small graph;
//  3. single vertices move to other partitions where this leaves fewer halo rows.
//
// It takes up to 20 bytes for each vertex, 4 for each neighbour of the vertex with the most, and the
// contracted graph, which has at most maxClusters vertices and maxPairs edges. It reads in-neighbours only:
// in a directed graph, label propagation does not see the edges out of a vertex.
package stream

import (
	"context"

	"weft/partition/metis"
)

// Graph is a graph whose edges are read in order.
type Graph struct {
	Vertices int
	// InNeighbours returns the sources of all edges into v, in ascending order, with self loops and duplicates.
	// It is called for v = 0, 1, … in each pass. The slice is valid until the next call.
	InNeighbours func(v int32) []int32
	// Unload gives the memory back that reading edges takes in this process, as mapped files do. It is called
	// between passes and now and then within one. It may be nil.
	Unload func()
}

// Memory returns the most bytes that Assign takes in this process for a graph of so many vertices and edges,
// beside what lists in-neighbours.
func Memory(vertices int, edges int64) int64 {
	const (
		each     = 20 // label, size, edges from a cluster, its entry in a list; or partition, readers, several
		eachPair = 64
	)
	return each*int64(vertices) + eachPair*min(edges, maxPairs)
}

// Options say how to divide a graph.
type Options struct {
	K    int // number of partitions, 1 to V
	Seed uint64
	// Weights are quantities that each partition gets an equal share of. Each function returns what vertex v
	// has of one quantity.
	Weights []func(v int) int32
	// Divide divides the contracted graph into K partitions.
	Divide func(p *metis.Problem) ([]int32, error)
	// Progress is called now and then with the number of vertices that a pass has read. It may be nil.
	Progress func(pass string, done, all int64)
}

// Assign returns the partition, 0…K−1, of each vertex. The same graph and options give the same partitions.
func Assign(ctx context.Context, g *Graph, o *Options) ([]int32, error) {
	if o.K == 1 {
		return make([]int32, g.Vertices), nil
	}
	s := &passes{ctx: ctx, Graph: g, Options: o}
	label, err := s.clusters()
	if err != nil {
		return nil, err
	}
	count := pack(label, s.sizes(), maxClusters)
	of, err := s.divide(label, count)
	if err != nil {
		return nil, err
	}
	for v, cluster := range label {
		label[v] = of[cluster]
	}
	return label, s.refine(label)
}

// passes reads a graph.
type passes struct {
	ctx context.Context
	*Graph
	*Options
}

// pass calls visit for each vertex in order.
func (s *passes) pass(name string, visit func(v int32, sources []int32)) error {
	const between, unloaded = 1 << 14, 1 << 26 // vertices; edges
	read := 0
	for v := range int32(s.Vertices) {
		if v%between == 0 {
			if err := context.Cause(s.ctx); err != nil {
				return err
			}
			if s.Progress != nil {
				s.Progress(name, int64(v), int64(s.Vertices))
			}
		}
		sources := s.InNeighbours(v)
		visit(v, sources)
		if read += 1 + len(sources); read > unloaded || int(v) == s.Vertices-1 {
			s.unload()
			read = 0
		}
	}
	return nil
}

func (s *passes) unload() {
	if s.Unload != nil {
		s.Unload()
	}
}

// totals returns the sum of each weight over all vertices.
func (s *passes) totals() []int64 {
	totals := make([]int64, len(s.Weights))
	for c, weight := range s.Weights {
		for v := range s.Vertices {
			totals[c] += int64(weight(v))
		}
	}
	return totals
}
