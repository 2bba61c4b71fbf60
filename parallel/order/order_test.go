package order_test

import (
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/assert"
	"weft/kernel"
	"weft/parallel/order"
	"weft/tensor"
)

// idle is an axis that does nothing.
type idle struct{}

func (idle) Aggregate(x *autograd.Var, _ gnn.Reduce) *autograd.Var { return x }
func (idle) Rows(x *autograd.Var) *autograd.RowSet                 { return x.RowSet() }

func (idle) AggregateInto(*tensor.Matrix, *autograd.Var, gnn.Reduce) {}

// TestCheaperOrder: an aggregation whose input needs no gradient takes one pass over the edges in an epoch,
// and one of a constant input takes none. The number of passes matters where each pass redistributes values.
func TestCheaperOrder(t *testing.T) {
	const in = 8
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	rows := autograd.AllHere(2)
	x := team.Zeros(tensor.Features, 2, in)
	tape, inference := autograd.NewTrainingTape(team, autograd.Random{}), autograd.NewTape(team)
	layouts := func(columns int) int64 { return 3e6 * int64(columns) }
	for name, c := range map[string]struct {
		moved  func(columns int) int64
		choice order.Choice
		x      *autograd.Var
		out    int
		want   string
	}{
		"narrow output": {
			layouts, order.Auto, tape.Input(x, rows), 3,
			"transform 8 columns to 3, then aggregate (aggregate 8 columns, then transform to 3: 48 MB " +
				"between layouts)",
		},
		"equal": {
			layouts, order.Auto, tape.Input(x, rows), 8,
			"transform 8 columns to 8, then aggregate (aggregate 8 columns, then transform to 8: 48 MB " +
				"between layouts)",
		},
		"no gradient": {
			layouts, order.Auto, tape.Constant(x, rows), 5,
			"aggregate 8 columns, then transform to 5 (transform 8 columns to 5, then aggregate: 30 MB " +
				"between layouts)",
		},
		"forced": {
			layouts, order.TransformFirst, tape.Constant(x, rows), 5,
			"transform 8 columns to 5, then aggregate (aggregate 8 columns, then transform to 5: 24 MB " +
				"between layouts)",
		},
		"fixed": {
			layouts, order.Auto, tape.Fixed(x, rows), 5,
			"aggregate the features once, then transform in every epoch (transform 8 columns to 5, then " +
				"aggregate: 30 MB between layouts)",
		},
		"fixed and wide": {
			layouts, order.Auto, tape.Fixed(x, rows), 3,
			"transform 8 columns to 3, then aggregate (aggregate the features once, then transform in " +
				"every epoch: 0 MB between layouts)",
		},
		"embeddings": {
			nil, order.Embeddings, tape.Input(x, rows), 3,
			"aggregate 8 columns, then transform to 3",
		},
		"embeddings without recording": {
			nil, order.Embeddings, inference.Received(x.Retain(), rows), 3,
			"aggregate 8 columns, then transform to 3",
		},
		"features": {
			nil, order.Embeddings, tape.Fixed(x, rows), 9,
			"transform 8 columns to 9, then aggregate",
		},
		"what follows from features": {
			nil, order.Embeddings, autograd.Scale(2, tape.Constant(x, rows)), 9,
			"transform 8 columns to 9, then aggregate",
		},
		"no layouts, no gradient": {
			nil, order.Auto, tape.Constant(x, rows), 5,
			"transform 8 columns to 5, then aggregate",
		},
		"no layouts, wide output": {
			nil, order.Auto, tape.Input(x, rows), 9,
			"aggregate 8 columns, then transform to 9",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			costs := order.NewCosts(order.Options{
				Choice:  c.choice,
				Explain: func(layer, what string) { got = append(got, layer, what) },
			}, c.moved)
			layer, w := costs.Layer("convs.0"), c.x.Tape().Parameter(team.Zeros(tensor.Parameters, in, c.out),
				team.Zeros(tensor.Gradients, in, c.out))
			for range 2 { // the second says nothing
				layer.AggregateLinear(idle{}, c.x, w, gnn.Symmetric)
			}
			assert.Equal(t, []string{"convs.0", c.want}, got)
		})
	}
}

// TestParse: each choice is found by its name, and others are refused.
func TestParse(t *testing.T) {
	for name, want := range map[string]order.Choice{
		"auto": order.Auto, "transform-first": order.TransformFirst, "aggregate-first": order.AggregateFirst,
	} {
		var c order.Choice
		if err := c.UnmarshalText([]byte(name)); err != nil || c != want || c.String() != name {
			t.Errorf("%s is %d, %v", name, c, err)
		}
	}
	if err := new(order.Choice).UnmarshalText([]byte("nonsense")); err == nil {
		t.Error("nonsense is known")
	}
}
