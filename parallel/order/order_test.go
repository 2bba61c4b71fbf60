package order_test

import (
	"fmt"
	"strings"
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
	const (
		transform = "transform 8 columns to N, then aggregate"
		aggregate = "aggregate 8 columns, then transform to N"
		once      = "aggregate the features once, then transform in every epoch"
	)
	for name, c := range map[string]struct {
		moved       func(columns int) int64
		choice      order.Choice
		x           *autograd.Var
		out         int
		want, other string // the order that is taken, and the other one; "": it has no price
		megabytes   int
	}{
		"narrow output": {layouts, order.Auto, tape.Input(x, rows), 3, transform, aggregate, 48},
		"equal":         {layouts, order.Auto, tape.Input(x, rows), 8, transform, aggregate, 48},
		"no gradient":   {layouts, order.Auto, tape.Constant(x, rows), 5, aggregate, transform, 30},
		"forced": {
			layouts, order.TransformFirst, tape.Constant(x, rows), 5, transform, aggregate, 24,
		},
		"fixed":          {layouts, order.Auto, tape.Fixed(x, rows), 5, once, transform, 30},
		"fixed and wide": {layouts, order.Auto, tape.Fixed(x, rows), 3, transform, once, 0},
		"embeddings":     {nil, order.Embeddings, tape.Input(x, rows), 3, aggregate, "", 0},
		"embeddings without recording": {
			nil, order.Embeddings, inference.Received(x.Retain(), rows), 3, aggregate, "", 0,
		},
		"features": {nil, order.Embeddings, tape.Fixed(x, rows), 9, transform, "", 0},
		"what follows from features": {
			nil, order.Embeddings, autograd.Scale(2, tape.Constant(x, rows)), 9, transform, "", 0,
		},
		"no layouts, no gradient": {nil, order.Auto, tape.Constant(x, rows), 5, transform, "", 0},
		"no layouts, wide output": {nil, order.Auto, tape.Input(x, rows), 9, aggregate, "", 0},
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
			want := c.want
			if c.other != "" {
				want += fmt.Sprintf(" (%s: %d MB between layouts)", c.other, c.megabytes)
			}
			want = strings.ReplaceAll(want, "N", fmt.Sprint(c.out))
			assert.Equal(t, []string{"convs.0", want}, got)
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
