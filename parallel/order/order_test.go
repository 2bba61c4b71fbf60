package order_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/order"
	"weft/tensor"
)

// priced is an axis that does nothing, on which an aggregation sends its columns in each pass.
type priced struct{}

func (priced) Aggregate(x *autograd.Var, _ gnn.Reduce) *autograd.Var   { return x }
func (priced) AggregateInto(*tensor.Matrix, *autograd.Var, gnn.Reduce) {}
func (priced) Cost(columns int, passes order.Passes) (c order.Cost, ok bool) {
	return order.Cost{Sent: 1e6 * int64(columns) * int64(passes), All: 3e6 * int64(columns) * int64(passes)}, true
}

// TestCheaperOrder: an aggregation whose input wants no gradient is made in one pass an epoch, and one of an
// input that stays the same in none.
func TestCheaperOrder(t *testing.T) {
	const in = 8
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	rows := autograd.AllHere(2)
	x := team.Zeros(tensor.Features, 2, in)
	tape := autograd.NewTrainingTape(team, autograd.Random{})
	for name, c := range map[string]struct {
		choice order.Choice
		x      *autograd.Var
		out    int
		want   string
	}{
		"narrow output": {order.Auto, tape.Input(x, rows), 3, "transform 8 columns to 3, then aggregate; sends 6 MB of 18 MB between layouts " +
			"(aggregate 8 columns, then transform to 3: sends 16 MB of 48 MB between layouts)"},
		"equal": {order.Auto, tape.Input(x, rows), 8, "transform 8 columns to 8, then aggregate; sends 16 MB of 48 MB between layouts " +
			"(aggregate 8 columns, then transform to 8: sends 16 MB of 48 MB between layouts)"},
		"no gradient": {order.Auto, tape.Constant(x, rows), 5, "aggregate 8 columns, then transform to 5; sends 8 MB of 24 MB between layouts " +
			"(transform 8 columns to 5, then aggregate: sends 10 MB of 30 MB between layouts)"},
		"forced": {order.TransformFirst, tape.Constant(x, rows), 5, "transform 8 columns to 5, then aggregate; sends 10 MB of 30 MB between layouts " +
			"(aggregate 8 columns, then transform to 5: sends 8 MB of 24 MB between layouts)"},
		"fixed": {order.Auto, tape.Fixed(x, rows), 5, "aggregate the features once, then transform in every epoch; sends 0 MB of 0 MB between layouts " +
			"(transform 8 columns to 5, then aggregate: sends 10 MB of 30 MB between layouts)"},
		"fixed and wide": {order.Auto, tape.Fixed(x, rows), 3, "transform 8 columns to 3, then aggregate; sends 6 MB of 18 MB between layouts " +
			"(aggregate the features once, then transform in every epoch: sends 0 MB of 0 MB between layouts)"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			book := order.NewBook(c.choice, func(line string) { got = line })
			w := tape.Parameter(team.Zeros(tensor.Parameters, in, c.out), team.Zeros(tensor.Gradients, in, c.out))
			book.Site("convs.0").AggregateLinear(priced{}, c.x, w, gnn.Symmetric)
			if diff := cmp.Diff("convs.0: "+c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNames: each choice is found by its name.
func TestNames(t *testing.T) {
	for i, name := range order.Names {
		if c, known := order.Parse(name); !known || int(c) != i {
			t.Errorf("%s is %d", name, c)
		}
	}
	if _, known := order.Parse("nonsense"); known {
		t.Error("nonsense is known")
	}
}
