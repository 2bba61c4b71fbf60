package train

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/graph/appended"
	"weft/internal/require"
)

// parted divides a graph at random into one with fewer vertices and edges, what is to be appended to it, and
// the graph of both: that of all vertices, whose edges between the same two are in the order of appending.
// Types that keep says stay whole.
func parted(t *testing.T, g *graph.Graph, seed uint64, keep func(graph.VertexType) bool,
) (base, whole *graph.Graph, added *appended.Addition) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 6))
	first, all := *g.Copy(), *g.Copy()
	types, was := first.Types, g.Types
	added = &appended.Addition{
		Types: make([]appended.NewVertices, len(types)),
		Edges: make([]graph.Edges, len(g.Relations)),
	}
	for i := range types {
		if keep(types[i]) {
			continue
		}
		vertexType, n := &types[i], 1+random.IntN(types[i].Count/10)
		vertexType.Count -= n
		f := vertexType.Features
		at := vertexType.Count * f.Columns
		vertexType.Features.Dense = f.Dense[:at]
		added.Types[i] = appended.NewVertices{
			Count: n, Features: graph.Features{Columns: f.Columns, Dense: f.Dense[at:]},
		}
	}
	first.Types[0].Labels.Class, first.Types[0].Splits = g.Types[0].Labels.Class[:types[0].Count], nil
	for _, s := range g.Types[0].Splits {
		for _, part := range s.Parts() {
			end, _ := slices.BinarySearch(*part, int64(types[0].Count))
			*part = (*part)[:end]
		}
		first.Types[0].Splits = append(first.Types[0].Splits, s)
	}
	all.Types[0].Splits = first.Types[0].Splits
	first.Relations, all.Relations = slices.Clone(g.Relations), slices.Clone(g.Relations)
	for i := range g.Relations {
		r := &g.Relations[i]
		source, target, err := g.Joins(r)
		require.NoError(t, err)
		e := r.Edges()
		old := graph.Edges{FeatureColumns: e.FeatureColumns}
		more := &added.Edges[i]
		more.FeatureColumns = e.FeatureColumns
		for _, k := range random.Perm(e.Len()) {
			to := &old
			if int(e.Source[k]) >= types[source].Count || int(e.Target[k]) >= types[target].Count ||
				random.IntN(100) == 0 {
				to = more
			}
			to.Source, to.Target = append(to.Source, e.Source[k]), append(to.Target, e.Target[k])
			if e.Weights != nil {
				to.Weights = append(to.Weights, e.Weights[k])
			}
			to.Features = append(to.Features, e.Features[k*e.FeatureColumns:(k+1)*e.FeatureColumns]...)
		}
		together := graph.Edges{
			Source: slices.Concat(old.Source, more.Source), Target: slices.Concat(old.Target, more.Target),
			Weights:  slices.Concat(old.Weights, more.Weights),
			Features: slices.Concat(old.Features, more.Features), FeatureColumns: e.FeatureColumns,
		}
		for _, made := range []struct {
			to    *graph.Relation
			edges graph.Edges
			types []graph.VertexType
		}{{&first.Relations[i], old, types}, {&all.Relations[i], together, was}} {
			*made.to, err = graph.NewBipartite(made.types[source].Count, made.types[target].Count, made.edges)
			require.NoError(t, err)
			made.to.Source, made.to.Name, made.to.Target = r.Source, r.Name, r.Target
		}
	}
	require.NoError(t, first.Check())
	require.NoError(t, all.Check())
	return &first, &all, added
}

// extendable are settings of models that predict vertices of a graph with an addition.
func extendable() map[string]Options {
	all := networks()
	maps.DeleteFunc(all, func(_ string, o Options) bool { return gnn.OverAll(o.Norm) })
	more := func(name, base, words string) { all[name] = apply(all[base], words) }
	more("both-gcn", "gcn", "direction both")
	more("both-gatv2", "gat", "model gatv2, direction both, drop-edge 0")
	more("decoupled", "gcn", "decoupled, residual false, norm none, rounds 2, teleport .2")
	more("labels", "gcn", "label-input .5")
	all["rgcn"] = apply(networks()["gcn"], "model rgcn, residual false, norm batch")
	all["rgcn-decoupled"] = apply(all["rgcn"], "decoupled")
	for _, name := range []string{"sage-max", "gat"} {
		all["typed-"+name] = networks()[name]
	}
	for name, o := range all {
		o.Epochs = 1
		all[name] = o
	}
	return all
}

// overTypes reports whether settings of extendable are for a graph of several types.
func overTypes(name string) bool {
	return strings.HasPrefix(name, "rgcn") || strings.HasPrefix(name, "typed")
}

// eachExtension calls f twice for each setting of extendable: with its options and a seed, a part of the
// plain or of the typed graph, the whole of it, and the part with what it lacks appended.
func eachExtension(t *testing.T, plain, typed *graph.Graph, f func(name string, o Options, seed uint64,
	base, whole *graph.Graph, with *appended.Graph),
) {
	all := extendable()
	for n, name := range slices.Sorted(maps.Keys(all)) {
		for try := range uint64(2) {
			g, seed := plain, uint64(n)*2+try
			if overTypes(name) {
				g = typed
			}
			base, whole, added := parted(t, g, seed, func(graph.VertexType) bool { return false })
			with, err := appended.On(base).With(added)
			require.NoError(t, err)
			f(name, all[name], seed, base, whole, with)
		}
	}
}
