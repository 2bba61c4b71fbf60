// Convolution trains a network with a convolution of its own on a graph of communities, made in memory.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/nn"
	"weft/train"
)

// contrast is z_i = W·x_i + V·(x_i − mean_{j→i} x_j): how a vertex differs from its in-neighbours.
func contrast(path string, in, out int, act kernel.Activation) gnn.BlockSpec {
	return gnn.BlockSpec{In: in, Out: out, Build: func(e gnn.Env) gnn.Block {
		weight := func(name string) *nn.Param {
			return e.Params.Weight(path+name, in, out, nn.Glorot(in, out))
		}
		own := weight(".own")
		difference := weight(".difference")
		p := e.Propagators(path, gnn.Along{Relation: e.Only()})
		return gnn.NewLayer(gnn.ConvolutionFunc(func(x *autograd.Var) (*autograd.Var, *nn.Param) {
			w, v := own.On(x.Tape()), difference.On(x.Tape())
			return autograd.AddLinear(autograd.Combine(1, autograd.Linear(x, v), -1,
				p.AggregateLinear(x, v, gnn.Mean)), x, w), nil
		}), gnn.TypeLayer{Activation: act})
	}}
}

func main() {
	const vertices, classes = 2000, 4
	r := rand.New(rand.NewPCG(1, 2))
	edges, rows := graph.Edges{}, graph.Frame{Count: vertices}
	rows.Features.Columns, rows.Labels.Classes = classes, classes
	for v := range int32(vertices) {
		for k := range int32(3 * classes) { // twelve in-neighbours, of which nine share the class
			edges.Source, edges.Target = append(edges.Source, (v+classes*r.Int32N(50)+k%4/3)%vertices),
				append(edges.Target, v)
		}
		for c := range int32(classes) {
			rows.Features.Dense = append(rows.Features.Dense,
				float32(r.NormFloat64()+1/(1+100*float64((v-c)%classes))))
		}
		rows.Labels.Class = append(rows.Labels.Class, int64(v%classes))
	}
	g := &graph.Graph{
		Types:     []graph.VertexType{{Frame: rows}},
		Relations: []graph.Relation{must(graph.NewRelation(vertices, edges))},
	}
	must(0, g.MakeSplits("random:60/20/20", 1, 1))
	job := train.Job{Graph: g, Options: train.Defaults(), Model: func(features, classes int) []gnn.BlockSpec {
		return []gnn.BlockSpec{
			contrast("first", features, 32, kernel.ReLU),
			contrast("last", 32, classes, kernel.Identity),
		}
	}}
	result := must(job.Run(context.Background()))
	logits := must(job.Predict(context.Background(), result.Weights, train.Logits)).Logits
	first := logits[:classes]
	fmt.Printf("test accuracy %.2f; vertex 0 is of class %d\n", result.Test,
		slices.Index(first, slices.Max(first)))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
