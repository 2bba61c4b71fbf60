// Package stream divides graphs that METIS cannot hold. It reads the edges in order, a few times, and keeps
// a few numbers for each vertex:
//
//  1. label propagation makes clusters of bounded size (Meyerhenke, Sanders and Schulz, "Partitioning
//     Complex Networks via Size-Constrained Clustering", SEA 2014; with edges on disk: Akhremtsev, Sanders
//     and Schulz, "(Semi-)External Algorithms for Graph Partitioning and Clustering", ALENEX 2015);
//  2. the clusters are contracted, and METIS divides the small graph;
//  3. single vertices move to other partitions where this leaves fewer halo rows.
//
// A small graph is divided without clusters, too, and the partitions with fewer halo rows are taken.
//
// It takes up to 20 bytes for each vertex, 4 for each neighbour of the vertex with the most on each core, and
// the contracted graph, which has at most maxClusters vertices and maxPairs edges. It reads in-neighbours
// only: in a directed graph, label propagation does not see the edges out of a vertex.
//
// All cores read. The result depends on neither their number nor their speed: what they change while they
// read comes out the same in any order, and vertices move one after another.
//
// Package partition calls it where METIS would need too much memory.
package stream

import (
	"context"
	"sync"
	"sync/atomic"

	"weft/internal/cores"
	"weft/internal/memory"
	"weft/partition/metis"
)

// Graph is a graph whose edges are read in order.
type Graph struct {
	Vertices int
	// Reader returns a function that returns the sources of all edges into v, in ascending order, with self
	// loops and duplicates. Its slice is valid until its next call. A pass calls it for ascending v. Several
	// functions are called at the same time.
	Reader func() func(v int32) []int32
	// Unload gives the memory back that reading edges takes in this process, as mapped files do. It is called
	// between passes and now and then within one. It may be nil.
	Unload func()
}

// Memory returns the most bytes that Assign takes in this process for a graph of so many vertices and edges,
// beside what lists in-neighbours.
func Memory(vertices int, edges int64) int64 {
	const (
		each     = 20 // to refine: the partition and the readers; to cluster: less
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
	if err := s.byClusters(label, pack(label, s.sizes(), maxClusters)); err != nil || g.Vertices > small {
		return label, err
	}
	alone := make([]int32, g.Vertices)
	for v := range alone {
		alone[v] = int32(v)
	}
	if err := s.byClusters(alone, g.Vertices); err != nil {
		return nil, err
	}
	return s.fewerHaloRows(label, alone)
}

// small bounds the vertices of a graph on which refining single vertices without clusters is tried, too:
// METIS alone sometimes leaves fewer halo rows there.
const small = 1 << 16

// byClusters turns the label of each vertex, a number of a cluster, into its partition.
func (s *passes) byClusters(label []int32, clusters int) error {
	parts, err := s.divide(label, clusters)
	if err != nil {
		return err
	}
	for v, cluster := range label {
		label[v] = parts[cluster]
	}
	memory.Free() // what the clusters took
	return s.refine(label)
}

// passes reads a graph.
type passes struct {
	ctx context.Context
	*Graph
	*Options
}

// block is how many consecutive vertices are read in one go, and batch how many of them a core takes at a
// time.
const block, batch = 1 << 14, 1 << 9

// pass calls visit for each vertex in order.
func (s *passes) pass(name string, visit func(v int32, sources []int32)) error {
	read := s.Reader()
	return s.blocks(name, func(first, last int32) (edges int) {
		for v := first; v < last; v++ {
			sources := read(v)
			visit(v, sources)
			edges += len(sources)
		}
		return edges
	})
}

// passOnAll calls look for each vertex, on all cores. After each block it calls visit, in order, for the
// block's vertices for which look returned true. newLook makes the function for a core. visit may be nil if
// look never returns true.
func (s *passes) passOnAll(name string, newLook func() func(v int32, sources []int32) bool,
	visit func(v int32, sources []int32),
) error {
	type core struct {
		read func(v int32) []int32
		look func(v int32, sources []int32) bool
	}
	all := make([]core, cores.Count())
	again := s.Reader()
	for i := range all {
		all[i] = core{s.Reader(), newLook()}
	}
	var chosen [block / batch][]int32
	return s.blocks(name, func(first, last int32) int {
		var next, edges atomic.Int64
		var work sync.WaitGroup
		for _, c := range all {
			work.Go(func() {
				n := 0
				for i := next.Add(1) - 1; i < block/batch; i = next.Add(1) - 1 {
					chosen[i] = chosen[i][:0]
					begin, end := batchOf(first, last, int(i))
					for v := begin; v < end; v++ {
						sources := c.read(v)
						if c.look(v, sources) {
							chosen[i] = append(chosen[i], v)
						}
						n += len(sources)
					}
				}
				edges.Add(int64(n))
			})
		}
		work.Wait()
		for _, vertices := range chosen {
			for _, v := range vertices {
				visit(v, again(v))
			}
		}
		return int(edges.Load())
	})
}

// batchOf returns the vertices begin, …, end−1 of a batch of the block first, …, last−1. The last vertices of
// the largest graph are less than a batch below the limit of int32.
func batchOf(first, last int32, i int) (begin, end int32) {
	at := int64(first) + int64(i)*batch
	return int32(min(at, int64(last))), int32(min(at+batch, int64(last)))
}

// blocks calls read for the blocks of vertices first, …, last−1 in order. read returns how many edges it
// read.
func (s *passes) blocks(name string, read func(first, last int32) (edges int)) error {
	const unloaded = 1 << 26 // edges
	edges := 0
	for first := 0; first < s.Vertices; first += block {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		if s.Progress != nil {
			s.Progress(name, int64(first), int64(s.Vertices))
		}
		last := min(first+block, s.Vertices)
		edges += read(int32(first), int32(last))
		if edges > unloaded || last == s.Vertices {
			s.unload()
			edges = 0
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
