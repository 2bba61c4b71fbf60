package paralleltest

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"weft/autograd"
	"weft/checkpoint"
	"weft/internal/require"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/order"
	"weft/tensor"
	"weft/train"
	"weft/train/engine"
)

// TestDelayIsItsDefinition compares losses and gradients with the definition of PipeGCN: on three partitions
// of a directed graph, with each smoothing, and with the order of work that --aggregation-order auto and
// transform-first give. The weights change in every epoch. Inference between the epochs is exact.
func TestDelayIsItsDefinition(t *testing.T) {
	for _, c := range []struct {
		model     string
		smoothing axis.Smoothing
		order     order.Choice
	}{
		{model: "gcn"},
		{model: "sage"},
		{model: "gcn", smoothing: axis.OfFeatures},
		{model: "sage", smoothing: axis.OfGradients},
		{model: "gcn", smoothing: axis.OfBoth},
		{model: "gcn", order: order.TransformFirst},
		{model: "gat"},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			o := train.Defaults()
			o.Parallel, o.HaloDelay, o.AggregationOrder = "graph=3", 1, c.order
			settings, err := o.Resolve()
			require.NoError(t, err)
			s := newStaged(t, c.model, Grid(1, 3, 1), 1)
			s.recompute, s.options = false, settings.Options.Options
			s.options.HaloSmoothing = c.smoothing
			s.check(t, s.train(t))
		})
	}
}

// TestAveragesAreWhole: the moving averages of late rows and gradients are float32s of all columns of the
// rows that come, however these are encoded.
func TestAveragesAreWhole(t *testing.T) {
	for _, wire := range []axis.Wire{axis.AsStored, axis.BFloat16, axis.Int8, axis.Int4} {
		s := newStaged(t, "gcn", Grid(1, 3, 1), 1)
		s.spec.Layers, s.spec.Hidden = 3, 40
		// Products with the weights are aggregated.
		columns := map[string]int{"convs.1": 40, "convs.2": s.graph.Labels.Classes}
		rows := 0 // of the halos of all partitions
		for p := range int32(3) {
			halo := map[int32]bool{}
			e := s.graph.Relations[0].Edges()
			for k, v := range e.Target {
				if u := e.Source[k]; s.of[v] == p && s.of[u] != p {
					halo[u] = true
				}
			}
			rows += len(halo)
		}
		var mu sync.Mutex
		got := map[string]int{} // elements by module path and part
		s.workers(t, func(c engine.Config) {
			c.HaloDelay, c.HaloSmoothing, c.Recompute, c.Wire = 1, axis.OfBoth, false, wire
			c.AggregationOrder = order.TransformFirst
			e, err := engine.New(c)
			exchange.Must(err)
			engine.Train(e, engine.Training(7, 1), func(logits *autograd.Var) (float64, *tensor.Matrix) {
				return 0, logits.Tape().Team.Zeros(tensor.Gradients, logits.Rows(), logits.Cols())
			})
			exchange.Must(e.Settle())
			mu.Lock()
			defer mu.Unlock()
			for _, a := range checkpoint.Elements(e.Arrays()) {
				for path := range columns {
					for _, part := range []string{"average-rows", "average-gradients"} {
						if strings.Contains(a.Name, "/"+path+"/") && strings.Contains(a.Name, "/"+part+".") {
							got[path+" "+part] += len(a.Floats)
						}
					}
				}
			}
		})
		want := map[string]int{}
		for path, n := range columns {
			want[path+" average-rows"], want[path+" average-gradients"] = rows*n, rows*n
		}
		if !maps.Equal(got, want) {
			t.Errorf("format %v: elements %v, want %v", wire, got, want)
		}
	}
}
