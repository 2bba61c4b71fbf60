package paralleltest

import (
	"fmt"
	"slices"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/parallel/tp"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// TestDropEdge: each layer on a graph whose epoch leaves out edges is the layer on the graph without these
// edges, on any mesh and in both directions, with edge weights, edge features, duplicate edges and self
// loops. So degrees are those of the edges that are left.
func TestDropEdge(t *testing.T) {
	const p = .4
	for _, m := range []mesh.Mesh{Grid(1, 1, 1), Grid(1, 3, 1), Grid(1, 1, 3), Grid(1, 2, 2)} {
		newAxis := func(c engine.Config) (engine.Axis, error) {
			o := axis.Options{Prefetch: 1, DropEdge: p}
			if c.Groups.Mesh.Slices > 1 {
				return tp.New(c.Env, o)
			}
			return sar.New(c.Env, o)
		}
		graphs := map[string]*testGraph{"loops and weights": smallWeighted}
		if m == Grid(1, 3, 1) { // several messages between two partitions, and several batches of edges
			graphs["features"] = newGiven(func(t testing.TB) *graph.Graph {
				return WithEdgeFeatures(ManyEdges(t, 2200, 8))
			})
		}
		for name, on := range graphs {
			full := on.graph(t)
			left := *full
			left.Relations = slices.Clone(full.Relations)
			left.Relations[0] = without(t, full, autograd.Random{Seed: 3, Epoch: 5}, p) // as Layer.Run has it
			var layers []Layer
			// what is computed of constant features is kept, and Config.variesInput is for that
			for _, l := range Layers {
				if !slices.Contains([]string{"fixed", "fixed and too wide", "kept"}, l.Name) {
					layers = append(layers, l)
				}
			}
			for _, along := range []gnn.Along{Stored, Reversed} {
				var got []*Outcome
				for _, l := range layers {
					got = append(got, l.Blank(full.Vertices()))
				}
				owners := Dividings(full.Vertices(), m.Partitions)["unevenly"]
				Workers{
					Mesh: m, Storage: tensor.Float32, Graph: full, Owners: owners,
				}.Run(t, func(c engine.Config) {
					a, err := newAxis(c)
					exchange.Must(err)
					for i, l := range layers {
						if l.Is(along) {
							l.Run(c, a, along, got[i], l.Blank(full.Vertices()))
						}
					}
				})
				for i, l := range layers {
					if l.Is(along) {
						got[i].Near(t, fmt.Sprintf("%s, %s, %s, %+v", Name(m), name, l.Name, along),
							l.right(t, tensor.Float32, &left, along))
					}
				}
			}
		}
	}
}

// without returns the relation of a graph without the edges that an epoch leaves out.
func without(t *testing.T, g *graph.Graph, epoch autograd.Random, p float64) graph.Relation {
	t.Helper()
	r := &g.Relations[0]
	d := edges.Drop{Key: epoch.Key("drop-edge " + sar.SchemaOf(partition.All(g)).Relations[0].Name), P: p}
	all, left := r.Edges(), graph.Edges{}
	left.FeatureColumns = all.FeatureColumns
	before := map[[2]int32]int64{}
	for k, u := range all.Source {
		end := [2]int32{u, all.Target[k]}
		keeps := d.Keeps(int64(u), int64(end[1]), before[end])
		if before[end]++; !keeps {
			continue
		}
		left.Source, left.Target = append(left.Source, u), append(left.Target, end[1])
		if all.Weights != nil {
			left.Weights = append(left.Weights, all.Weights[k])
		}
		left.Features = append(left.Features, all.Features[k*all.FeatureColumns:(k+1)*all.FeatureColumns]...)
	}
	if share := float64(len(left.Source)) / float64(len(all.Source)); share < .5 || share > .7 {
		t.Errorf("%.2f of the edges are left, and not %.2f", share, 1-p)
	}
	some, err := graph.NewRelation(g.Vertices(), left)
	require.NoError(t, err)
	some.Name = r.Name
	return some
}
