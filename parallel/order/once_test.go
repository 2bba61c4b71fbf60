package order_test

import (
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/order"
	"weft/tensor"
)

// counting counts what it aggregates, and fills the result with that number.
type counting struct {
	idle
	team *kernel.Team
	made *int
}

func (c counting) AggregateInto(z *tensor.Matrix, _ *autograd.Var, _ gnn.Reduce) {
	*c.made++
	c.team.Fill(z, float32(*c.made))
}

// TestOnce: a constant input is aggregated once for each set of rows and each aggregation. Another input of
// the same rows replaces it, and the next epoch releases the memory of the first.
func TestOnce(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	made := 0
	axis := counting{team: team, made: &made}
	costs := order.NewCosts(order.Options{}, nil)
	layer := costs.Layer("convs.0")
	rows, others := autograd.AllHere(2), autograd.AllHere(2)
	x, y := team.Zeros(tensor.Activations, 2, 1), team.Zeros(tensor.Activations, 2, 1)
	w := team.Zeros(tensor.Parameters, 1, 1)
	team.Fill(w, 1)
	aggregate := func(m *tensor.Matrix, rows *autograd.RowSet, r gnn.Reduce) float32 {
		costs.BeginEpoch()
		tape := autograd.NewTape(team)
		return layer.AggregateLinear(axis, tape.Fixed(m, rows), tape.Constant(w, nil), r).Value().Floats()[0]
	}
	live := func() int64 { return team.Memory.Live(tensor.Features) }
	page := int64(0)
	for _, c := range []struct {
		x    *tensor.Matrix
		rows *autograd.RowSet
		by   gnn.Reduce
		want float32 // which aggregation it is
		kept int64   // aggregations that are kept, and one of the epoch before
	}{
		{x, rows, gnn.Symmetric, 1, 1},
		{x, rows, gnn.Symmetric, 1, 1},
		{x, rows, gnn.Mean, 2, 2},
		{x, others, gnn.Mean, 3, 3},
		{x, rows, gnn.Mean, 2, 3},
		{y, rows, gnn.Mean, 4, 4},
		{y, rows, gnn.Mean, 4, 3},
		{x, rows, gnn.Symmetric, 1, 3},
	} {
		got := aggregate(c.x, c.rows, c.by)
		if page == 0 {
			page = live()
		}
		if got != c.want || live() != c.kept*page {
			t.Errorf("aggregation %v of %d that are kept, want %v of %d", got, live()/page, c.want, c.kept)
		}
	}
	if made != 4 {
		t.Errorf("%d aggregations, want 4", made)
	}
}

// TestWords: the descriptions of an aggregation and of attention.
func TestWords(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	x := autograd.NewTape(team).Constant(team.Zeros(tensor.Features, 2, 12), autograd.AllHere(2))
	for got, want := range map[string]string{
		order.Aggregation(5, gnn.Rounds{Count: 1}): "aggregate 5 columns",
		order.Aggregation(5,
			gnn.Rounds{Count: 2}): "aggregate 5 columns, 2 times",
		order.Attention(gnn.Attention{Heads: 3, Source: x},
			gnn.Rounds{}): "attend with 3 heads of 4 columns",
		order.Attention(gnn.Attention{Heads: 1, Source: x},
			gnn.Rounds{Count: 7}): "attend with 1 heads of 12 columns, 7 times",
		order.Moved(1_500_000): "1.5 MB between layouts",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestOnceUpToTwiceAsWide: constant features are aggregated once if they have at most twice as many columns
// as the output.
func TestOnceUpToTwiceAsWide(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	rows := autograd.AllHere(2)
	x := team.Zeros(tensor.Activations, 2, 8)
	for out, want := range map[int]int{3: 0, 4: 1, 5: 1} {
		made := 0
		layer := order.NewCosts(order.Options{}, nil).Layer("convs.0")
		tape := autograd.NewTape(team)
		layer.AggregateLinear(counting{team: team, made: &made}, tape.Fixed(x, rows),
			tape.Constant(team.Zeros(tensor.Parameters, 8, out), nil), gnn.Mean)
		if made != want {
			t.Errorf("8 columns to %d: %d aggregations are kept, want %d", out, made, want)
		}
	}
}
