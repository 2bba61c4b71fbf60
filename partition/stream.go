package partition

import (
	"context"
	"fmt"
	"slices"

	"weft/graph"
	"weft/internal/memory"
	"weft/partition/metis"
	"weft/partition/stream"
)

// byStream assigns the vertices of a graph.
func byStream(ctx context.Context, g *graph.Graph, o *Options) ([]int32, error) {
	if err := memory.Need(stream.Memory(g.Vertices(), g.Edges())); err != nil {
		return nil, err
	}
	parts, err := stream.Assign(ctx, &stream.Graph{
		Vertices: g.Vertices(), Reader: inLists(g).reader,
		Unload: g.Unload,
	}, &stream.Options{
		K: o.K, Seed: o.Seed, Weights: weights(g, o), Progress: o.Progress,
		Divide: func(p *metis.Problem) ([]int32, error) { return solve(ctx, p, o.K, o.Seed, o.Timeout) },
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w; the partition methods random and range do without METIS", err)
	}
	return parts, err
}

// relations are the relations of a graph as one, whose vertices of all types are numbered consecutively.
type relations []ends

// ends is a relation, and the first vertices of the types that it joins.
type ends struct {
	source, target int
	in             *graph.Relation
}

func inLists(g *graph.Graph) (all relations) {
	first := g.FirstIDs()
	for i := range g.Relations {
		r := relationOf(g, i)
		all = append(all, ends{first[r.Source], first[r.Target], &g.Relations[i]})
	}
	return all
}

// sources returns the in-neighbours of vertex v of the whole graph, by their ids within the source type.
func (e *ends) sources(v int) []int32 {
	v -= e.target
	if v < 0 || v >= len(e.in.Indptr)-1 {
		return nil
	}
	return e.in.Sources[e.in.Indptr[v]:e.in.Indptr[v+1]]
}

// degree returns the number of edges into vertex v.
func (r relations) degree(v int) (n int32) {
	for i := range r {
		n += int32(len(r[i].sources(v)))
	}
	return n
}

// reader returns the function that lists the in-neighbours of a vertex, ascending.
func (r relations) reader() func(v int32) []int32 {
	if len(r) == 1 && r[0].source == 0 {
		return func(v int32) []int32 { return r[0].sources(int(v)) }
	}
	var sources []int32
	return func(v int32) []int32 {
		sources = sources[:0]
		for i := range r {
			for _, u := range r[i].sources(int(v)) {
				sources = append(sources, int32(r[i].source)+u)
			}
		}
		slices.Sort(sources)
		return sources
	}
}
