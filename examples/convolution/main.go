// Convolution trains a network with a graph convolution of its own on a graph made in memory: a ring of communities whose
// members show a little of their community's colour.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/nn"
	"weft/train"
)

// Contrast is z_i = W·x_i + V·(x_i − mean_{j→i} x_j): how a vertex differs from its in-neighbours.
type Contrast struct {
	own, difference *nn.Param
	p               gnn.Propagator
}

// Forward computes the layer; it has no bias.
func (c *Contrast) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	t := x.Tape()
	difference := autograd.Combine(1, autograd.Linear(x, c.difference.On(t)), -1, c.p.AggregateLinear(x, c.difference.On(t), gnn.Mean))
	return autograd.AddLinear(difference, x, c.own.On(t)), nil
}

func layer(e gnn.Env, path string, in, out int) *Contrast {
	return &Contrast{e.Params.Weight(path+".own", in, out, nn.Glorot(in, out)), e.Params.Weight(path+".difference", in, out, nn.Glorot(in, out)),
		e.Propagators(path, false)}
}

func main() {
	const vertices, classes = 2000, 4
	r, edges, g := rand.New(rand.NewPCG(1, 2)), graph.Edges{}, &graph.Graph{Splits: make([]graph.Split, 1)}
	g.Features, g.Labels = graph.Features{Columns: classes}, graph.Labels{Classes: classes}
	for v := range int32(vertices) {
		class := v % classes
		for range 10 {
			edges.Source, edges.Target = append(edges.Source, (v+classes*r.Int32N(50)+r.Int32N(2))%vertices), append(edges.Target, v)
		}
		for c := range int32(classes) {
			g.Features.Dense = append(g.Features.Dense, float32(r.NormFloat64())+map[bool]float32{true: 1}[c == class])
		}
		g.Labels.Class = append(g.Labels.Class, int64(class))
	}
	var err error
	if g.Relation, err = graph.NewRelation(vertices, edges); err != nil {
		log.Fatal(err)
	}
	if err := g.MakeSplits("random:60/20/20", 1, 1); err != nil {
		log.Fatal(err)
	}
	job := train.Job{Graph: g, Options: train.Defaults(), Model: func(e gnn.Env) (*gnn.Model, error) {
		return &gnn.Model{Params: e.Params, Blocks: []*gnn.Block{
			{Conv: layer(e, "first", e.Features, 32), Activation: kernel.ReLU}, {Conv: layer(e, "last", 32, e.Classes)},
		}}, nil
	}}
	result, err := job.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	predicted, err := job.Predict(context.Background(), result.Weights)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("test accuracy %.3f; logits of vertex 0: %.2f\n", result.Test, predicted.Logits[:classes])
}
